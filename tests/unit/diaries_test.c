/* SPDX-License-Identifier: MPL-2.0 */
/* diaries_test.c -- the checker of the torture test sees what must not be. */
#include "tests/lib/diaries.h"

#include "tests/lib/folder.h"

#include <criterion/criterion.h>
#include <string.h>

/* Topic t1 of each diary is the same, and without a fault. */
#define WRITER "L 0\nP t1 0\nF\n"
/* The second of three slots fails; a reader has come to it. */
#define FAILING WRITER "P t0 1\nr t0 2\nR t0 2 1\nP t0 3\nF\nE t0 2\nF\n"
#define FAILED READER "V w0/t0 0 w0.0.1.0\nE w0/t0 1 application w0.0.2\n"
#define READER "L 0\nV w0/t1 0 w0.0.0.0\n"

static struct folder folder;

static void set_up(void)
{
    cr_assert(folder_make(&folder));
}

static void tear_down(void)
{
    folder_fini(&folder);
}

TestSuite(diaries, .init = set_up, .fini = tear_down);

static bool check(const char *w0, const char *r0, const char *r1, char *complaint)
{
    char path[FOLDER_PATH_BYTES_MAX];
    struct diaries_sums sums;
    cr_assert(folder_write(&folder, "w0.diary", w0, path));
    cr_assert(folder_write(&folder, "r0.diary", r0, path));
    cr_assert(folder_write(&folder, "r1.diary", r1 != NULL ? r1 : r0, path));
    return diaries_check(folder.path, 1, 2, &sums, complaint);
}

static void expect_fine(const char *w0, const char *r0, const char *r1)
{
    char complaint[DIARIES_COMPLAINT_BYTES];
    cr_expect(check(w0, r0, r1, complaint), "%s", complaint);
}

static void expect_wrong(const char *about, const char *w0, const char *r0, const char *r1)
{
    char complaint[DIARIES_COMPLAINT_BYTES];
    cr_expect_not(check(w0, r0, r1, complaint), "this must be seen: %s", about);
    cr_expect_not_null(strstr(complaint, about), "'%s' is not about: %s", complaint, about);
}

Test(diaries, lets_pass_what_is_as_it_must_be)
{
    expect_fine(WRITER "P t0 1\nP t0 2\nF\nP t0 3\n",
                READER "V w0/t0 0 w0.0.1.0\nV w0/t0 1 w0.0.2.0\n", NULL);
    expect_fine(WRITER "r t0 1\nR t0 1 0\nr t0 2\nR t0 2 1\nF\nC t0 1\nE t0 2\nF\n",
                READER "V w0/t0 0 w0.0.1.0\nE w0/t0 1 application w0.0.2\n", NULL);
    /* Killed with an open promise, and with one whose number it did not live to write down. */
    expect_fine(WRITER "r t0 1\nR t0 1 0\nF\nr t0 2\n",
                READER "E w0/t0 0 party_lost -\nE w0/t0 1 party_lost -\n", NULL);
    /* Killed before its promise was accepted: the next process has its number. */
    expect_fine(WRITER "r t0 1\nR t0 1 0\nL 1\nr t0 0\nR t0 0 0\nF\n",
                READER "E w0/t0 0 party_lost -\n", NULL);
    /* Killed before it wrote down that process 1 begins. */
    expect_fine(WRITER "L 2\nP t0 0\nF\n", READER "V w0/t0 0 w0.2.0.0\n", NULL);
    /* A reader's next process goes on at what was not acknowledged. */
    expect_fine(WRITER "P t0 1\nP t0 2\nF\n",
                READER "V w0/t0 0 w0.0.1.0\nF\nV w0/t0 1 w0.0.2.0\nL 1\nV w0/t0 1 w0.0.2.0\n",
                READER "V w0/t0 0 w0.0.1.0\nV w0/t0 1 w0.0.2.0\n");
    /* An error is acknowledged by the call behind it, not by a flush in between. */
    expect_fine(FAILING, FAILED "f\nL 1\nE w0/t0 1 application w0.0.2\nV w0/t0 2 w0.0.3.0\n",
                FAILED "f\nf\nV w0/t0 2 w0.0.3.0\nF\n");
}

Test(diaries, see_what_is_lost)
{
    expect_wrong("acknowledged, and not received", WRITER "P t0 1\nP t0 2\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\n", NULL);
    expect_wrong("acknowledged, and not received", WRITER "r t0 1\nR t0 1 0\nC t0 1\nF\n",
                 READER "E w0/t0 0 party_lost -\n", NULL);
    expect_wrong("has no end", WRITER "P t0 1\nr t0 2\nR t0 2 1\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\n", NULL);
    expect_wrong("is missing", WRITER "P t0 1\nP t0 2\nF\n", READER "V w0/t0 1 w0.0.2.0\n", NULL);
    expect_wrong("for another at", WRITER "P t0 1\nP t0 2\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\nV w0/t0 1 w0.0.2.0\n", READER "V w0/t0 0 w0.0.1.0\n");
}

Test(diaries, see_what_comes_twice_or_out_of_order)
{
    expect_wrong("was due", WRITER "P t0 1\nF\n", READER "V w0/t0 0 w0.0.1.0\nV w0/t0 0 w0.0.1.0\n",
                 NULL);
    expect_wrong("it was acknowledged", WRITER "P t0 1\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\nF\nL 1\nV w0/t0 0 w0.0.1.0\n", NULL);
    expect_wrong("it was acknowledged", FAILING, FAILED "F\nL 1\nE w0/t0 1 application w0.0.2\n",
                 NULL);
    expect_wrong("it was acknowledged", FAILING, FAILED "f\nL 1\nV w0/t0 0 w0.0.1.0\n", NULL);
    expect_wrong("it was acknowledged", FAILING,
                 FAILED "f\nV w0/t0 2 w0.0.3.0\nF\nL 1\nE w0/t0 1 application w0.0.2\n", NULL);
    expect_wrong("no error was given last", FAILING, FAILED "V w0/t0 2 w0.0.3.0\nf\n", NULL);
    expect_wrong("is at 0 and at 1", WRITER "P t0 1\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\nV w0/t0 1 w0.0.1.0\n", NULL);
    expect_wrong("written later", WRITER "P t0 1\nP t0 2\nF\n",
                 READER "V w0/t0 0 w0.0.2.0\nV w0/t0 1 w0.0.1.0\n", NULL);
}

Test(diaries, see_what_nobody_wrote_or_settled_so)
{
    expect_wrong("where one was acknowledged",
                 WRITER "r t0 1\nR t0 1 0\nF\nL 1\nr t0 0\nR t0 0 0\nF\n",
                 READER "E w0/t0 0 party_lost -\n", NULL);
    expect_wrong("nobody wrote", WRITER "P t0 1\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\nV w0/t0 1 w0.0.2.0\n", NULL);
    expect_wrong("nobody wrote", WRITER "P t0 1\nF\n", READER "V w0/t0 0 w0.1.1.0\n", NULL);
    expect_wrong("nobody wrote", WRITER "L 2\nP t0 0\nF\n", READER "V w0/t0 0 w0.1.0.0\n", NULL);
    expect_wrong("not the next process", WRITER "L 0\n", READER, NULL);
    expect_wrong("was not settled so", WRITER "r t0 1\nR t0 1 0\nC t0 1\nF\n",
                 READER "E w0/t0 0 application w0.0.1\n", NULL);
    expect_wrong("was promised at", WRITER "r t0 1\nR t0 1 5\nC t0 1\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\n", NULL);
    expect_wrong("another reader", WRITER "r t0 1\nR t0 1 0\nE t0 1\n",
                 READER "E w0/t0 0 application w0.0.1\n", READER "E w0/t0 0 party_lost -\n");
    expect_wrong("where nothing was promised", WRITER "P t0 1\nF\n",
                 READER "V w0/t0 0 w0.0.1.0\nE w0/t0 1 party_lost -\n", NULL);
}
