/* SPDX-License-Identifier: MPL-2.0 */
/* run_trace_test.c -- traces are told from messages, in outputs as programs write them, and no
 * source line gets past.  In each sample, what nobody but its program may see has the word SECRET.
 */
#include "clients/run_trace.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TEXT_BYTES_MAX 16384
#define ROUNDS 20000

struct sample {
    const char *name;
    const char *text;
    const char *what;  /* NULL: the trace does not say */
    const char *cause; /* NULL: none */
    const char *rest;  /* NULL: nothing */
    bool is_trace;
    bool is_cut;
};

static const struct sample samples[] = {
    {.name = "python",
     .text = "epoch 1\n"
             "Traceback (most recent call last):\n"
             "  File \"/srv/train.py\", line 7, in <module>\n"
             "    SECRET()\n"
             "  File \"/srv/train.py\", line 6, in f\n"
             "    raise ValueError(\"SECRET\" + \"bad data\")\n"
             "          ~~~~~~~~~~^^^^^^^^^\n"
             "ValueError: bad data\n",
     .is_trace = true,
     .what = "ValueError: bad data"},
    {.name = "python chain",
     .text = "Traceback (most recent call last):\n"
             "  File \"/srv/a.py\", line 4, in f\n"
             "    secret[\"SECRET\"]\n"
             "    ~~~~~~^^^^^^^^^^^^\n"
             "KeyError: 'password'\n"
             "\n"
             "During handling of the above exception, another exception occurred:\n"
             "\n"
             "Traceback (most recent call last):\n"
             "  File \"/srv/a.py\", line 6, in f\n"
             "    raise ValueError(\"SECRET\")\n"
             "ValueError: bad data\n",
     .is_trace = true,
     .what = "ValueError: bad data"},
    {.name = "python pool",
     .text = "multiprocessing.pool.RemoteTraceback: \n"
             "\"\"\"\n"
             "Traceback (most recent call last):\n"
             "  File \"/usr/lib/python3.11/multiprocessing/pool.py\", line 125, in worker\n"
             "    result = (True, func(*args, **kwds)) # SECRET\n"
             "                    ^^^^^^^^^^^^^^^^^^^\n"
             "RuntimeError: in worker\n"
             "\"\"\"\n"
             "\n"
             "The above exception was the direct cause of the following exception:\n"
             "\n"
             "Traceback (most recent call last):\n"
             "  File \"/srv/pool.py\", line 6, in <module>\n"
             "    p.map(f, [SECRET])\n"
             "RuntimeError: in worker\n",
     .is_trace = true,
     .what = "RuntimeError: in worker"},
    {.name = "python group",
     .text = "  + Exception Group Traceback (most recent call last):\n"
             "  |   File \"/srv/eg.py\", line 2, in f\n"
             "  |     raise ExceptionGroup(\"SECRET\", [ValueError(\"one\"), TypeError(\"two\")])\n"
             "  | ExceptionGroup: two things (2 sub-exceptions)\n"
             "  +-+---------------- 1 ----------------\n"
             "    | Traceback (most recent call last):\n"
             "    |   File \"/srv/eg.py\", line 9, in g\n"
             "    |     SECRET()\n"
             "    | ValueError: one\n"
             "    +---------------- 2 ----------------\n"
             "    | TypeError: two\n"
             "    +------------------------------------\n",
     .is_trace = true,
     .what = "ExceptionGroup: two things (2 sub-exceptions)"},
    {.name = "python group with ranks",
     .text = "[rank0]:   + Exception Group Traceback (most recent call last):\n"
             "[rank0]:   |   File \"/srv/eg.py\", line 2, in f\n"
             "[rank0]:   |     raise SECRET\n"
             "[rank0]:   | ExceptionGroup: two (1 sub-exception)\n"
             "[rank0]:   +-+---------------- 1 ----------------\n"
             "[rank0]:     | ValueError: one\n"
             "[rank0]:     +------------------------------------\n",
     .is_trace = true,
     .what = "ExceptionGroup: two (1 sub-exception)"},
    {.name = "python syntax",
     .text = "  File \"/srv/syn.py\", line 2\n"
             "    def SECRET(:\n"
             "          ^\n"
             "SyntaxError: invalid syntax\n",
     .is_trace = true,
     .what = "SyntaxError: invalid syntax"},
    {.name = "python fatal",
     .text = "Fatal Python error: Segmentation fault\n"
             "\n"
             "Current thread 0x00007fd643411b80 (most recent call first):\n"
             "  File \"/usr/lib/python3.11/ctypes/__init__.py\", line 519 in string_at\n"
             "  File \"/srv/SECRET.py\", line 3 in <module>\n"
             "\n"
             "Extension modules: numpy.core._multiarray_umath (total: 1)\n",
     .is_trace = true,
     .what = "Fatal Python error: Segmentation fault"},
    {.name = "python note",
     .text = "Traceback (most recent call last):\n"
             "  File \"/srv/note.py\", line 2, in <module>\n"
             "    raise SECRET\n"
             "ValueError: line one\n"
             "line two\n",
     .is_trace = true,
     .what = "ValueError: line one",
     .rest = "line two\n"},
    {.name = "python thread and a log",
     .text = "Exception in thread Thread-1 (f):\n"
             "Traceback (most recent call last):\n"
             "  File \"/usr/lib/python3.11/threading.py\", line 1045, in _bootstrap_inner\n"
             "    self.run(SECRET)\n"
             "RuntimeError: in thread\n"
             "ERROR:root:handled\n"
             "Traceback (most recent call last):\n"
             "  File \"/srv/thr.py\", line 5, in <module>\n"
             "    try: SECRET/0\n"
             "         ~^~\n"
             "ZeroDivisionError: division by zero\n"
             "fatal: giving up\n",
     .is_trace = true,
     .what = "ZeroDivisionError: division by zero",
     .rest = "fatal: giving up\n"},
    {.name = "python recursion",
     .text = "Traceback (most recent call last):\n"
             "  File \"/srv/rec.py\", line 1, in f\n"
             "    def f(n): return SECRET(n+1)\n"
             "                     ^^^^^^\n"
             "  [Previous line repeated 996 more times]\n"
             "RecursionError: maximum recursion depth exceeded\n",
     .is_trace = true,
     .what = "RecursionError: maximum recursion depth exceeded"},
    {.name = "python with ranks",
     .text = "[rank0]: Traceback (most recent call last):\n"
             "[rank0]:   File \"/srv/train.py\", line 8, in <module>\n"
             "[rank0]:     model(SECRET)\n"
             "[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n"
             "[rank0]:[W1122 ProcessGroupNCCL.cpp:1250] Warning: not destroyed\n",
     .is_trace = true,
     .what = "torch.OutOfMemoryError: CUDA out of memory.",
     .rest = "[rank0]:[W1122 ProcessGroupNCCL.cpp:1250] Warning: not destroyed\n"},
    {.name = "python, its head cut off",
     .text = "    return SECRET[\"a\"]\n"
             "           ~~~~~~^^^^^\n"
             "KeyError: 'a'\n",
     .is_trace = true,
     .what = "KeyError: 'a'",
     .is_cut = true},
    {.name = "python, cut between frames",
     .text = "  File \"/srv/a.py\", line 4, in f\n"
             "    return SECRET[\"a\"]\n"
             "KeyError: 'a'\n",
     .is_trace = true,
     .what = "KeyError: 'a'",
     .is_cut = true},
    {.name = "python, a name alone",
     .text = "Traceback (most recent call last):\n"
             "  File \"/srv/a.py\", line 4, in f\n"
             "    time.sleep(SECRET)\n"
             "KeyboardInterrupt\n",
     .is_trace = true,
     .what = "KeyboardInterrupt"},
    {.name = "python, killed within",
     .text = "Traceback (most recent call last):\n"
             "  File \"/srv/a.py\", line 4, in f\n"
             "    SECRET",
     .is_trace = true},
    {.name = "python, with returns",
     .text = "Traceback (most recent call last):\r\n"
             "  File \"a.py\", line 1, in f\r\n"
             "    SECRET\r\n"
             "ValueError: x\r\n",
     .is_trace = true,
     .what = "ValueError: x"},
    {.name = "java",
     .text = "Exception in thread \"main\" java.lang.RuntimeException: boom\n"
             "\tat Main.main(Main.java:2)\n"
             "Caused by: java.lang.IllegalStateException: disk\n"
             "\tat Main.SECRET(Main.java:1)\n"
             "\t... 1 more\n",
     .is_trace = true,
     .what = "java.lang.RuntimeException: boom",
     .cause = "java.lang.IllegalStateException: disk"},
    {.name = "java, lines in the message",
     .text = "Exception in thread \"pool-1-thread-1\" java.lang.Error: first\n"
             "second\n"
             "\tat Main.main(Main.java:2)\n"
             "\tSuppressed: java.io.IOException: closing\n"
             "\t\tat Main.close(Main.java:9)\n"
             "Caused by: java.io.IOException: no\n"
             "room\n"
             "\tat java.base/java.lang.reflect.Method.invoke(SECRET.java:569)\n"
             "done\n",
     .is_trace = true,
     .what = "java.lang.Error: first",
     .cause = "java.io.IOException: no",
     .rest = "done\n"},
    {.name = "java, no frames",
     .text = "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n",
     .is_trace = true,
     .what = "java.lang.OutOfMemoryError: Java heap space"},
    {.name = "java, printed",
     .text = "WARN closing\n"
             "java.io.IOException: disk\n"
             "\tat Main.f(SECRET.java:9)\n",
     .is_trace = true,
     .what = "java.io.IOException: disk"},
    {.name = "node",
     .text = "/srv/a.js:2\n"
             "    throw new Error(SECRET, {cause: new Error(\"inner\")});\n"
             "    ^\n"
             "\n"
             "Error: boom\n"
             "    at f (/srv/a.js:2:11)\n"
             "    at Object.<anonymous> (/srv/a.js:4:1)\n"
             "    ... 5 lines matching cause stack trace ...\n"
             "    at node:internal/main/run_main_module:28:49 {\n"
             "  [cause]: Error: SECRET\n"
             "      at f (/srv/a.js:2:37)\n"
             "      at node:internal/main/run_main_module:28:49\n"
             "}\n"
             "\n"
             "Node.js v20.20.2\n",
     .is_trace = true,
     .what = "Error: boom"},
    {.name = "node, a number",
     .text = "\n"
             "/srv/b.js:1\n"
             "throw SECRET;\n"
             "^\n"
             "42\n"
             "(Use `node --trace-uncaught ...` to show where the exception was thrown)\n"
             "\n"
             "Node.js v20.20.2\n",
     .is_trace = true,
     .what = "42"},
    {.name = "node, a rejection",
     .text =
         "node:internal/process/promises:389\n"
         "      new UnhandledPromiseRejection(SECRET);\n"
         "      ^\n"
         "\n"
         "UnhandledPromiseRejection: The promise rejected with the reason \"no\".\n"
         "    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7)\n"
         "    at process.processTicksAndRejections (node:internal/process/task_queues:96:32) {\n"
         "  code: 'ERR_UNHANDLED_REJECTION'\n"
         "}\n"
         "\n"
         "Node.js v20.20.2\n",
     .is_trace = true,
     .what = "UnhandledPromiseRejection: The promise rejected with the reason \"no\"."},
    {.name = "node, a module",
     .text = "x\n"
             "file:///srv/e.mjs:1\n"
             "console.error(\"x\"); throw Object.assign(SECRET);\n"
             "                                        ^\n"
             "\n"
             "Error: with code\n"
             "    at file:///srv/e.mjs:1:41\n"
             "    at async ModuleLoader.import (node:internal/modules/esm/loader:606:24) {\n"
             "  code: 'EFULL'\n"
             "}\n"
             "\n"
             "Node.js v20.20.2\n",
     .is_trace = true,
     .what = "Error: with code"},
    {.name = "node, syntax",
     .text = "/srv/c.js:1\n"
             "const SECRET = ;\n"
             "               ^\n"
             "\n"
             "SyntaxError: Unexpected token ';'\n"
             "    at wrapSafe (node:internal/modules/cjs/loader:1464:18)\n"
             "\n"
             "Node.js v20.20.2\n",
     .is_trace = true,
     .what = "SyntaxError: Unexpected token ';'"},
    {.name = ".net",
     .text = "Unhandled exception. System.InvalidOperationException: boom\n"
             "   at Program.SECRET() in /srv/Program.cs:line 3\n"
             "   at Program.<Main>$(String[] args) in /srv/Program.cs:line 1\n",
     .is_trace = true,
     .what = "Unhandled exception. System.InvalidOperationException: boom"},
    {.name = "ruby",
     .text = "x.rb:1:in `f': boom (RuntimeError)\n"
             "\tfrom x.rb:3:in `SECRET'\n",
     .is_trace = true,
     .what = "x.rb:1:in `f': boom (RuntimeError)"},
    {.name = "go panic",
     .text = "2026/11/22 starting\n"
             "panic: runtime error: index out of range [5] with length 3\n"
             "\n"
             "goroutine 1 [running]:\n"
             "main.SECRET(...)\n"
             "\t/srv/main.go:7\n"
             "main.main()\n"
             "\t/srv/main.go:12 +0x1d\n"
             "exit status 2\n",
     .is_trace = true,
     .what = "panic: runtime error: index out of range [5] with length 3"},
    {.name = "go nil",
     .text = "panic: runtime error: nil pointer dereference [recovered]\n"
             "\tpanic: SECRET again\n"
             "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x45e5a3]\n"
             "\n"
             "goroutine 1 [running]:\n"
             "main.main()\n"
             "\t/srv/main.go:12 +0x1d\n"
             "\n"
             "goroutine 18 [chan receive, 3 minutes]:\n"
             "main.SECRET(0xc000012345)\n"
             "\t/srv/main.go:20 +0x45\n"
             "created by main.main in goroutine 1\n"
             "\t/srv/main.go:10 +0x2f\n",
     .is_trace = true,
     .what = "panic: runtime error: nil pointer dereference [recovered]"},
    {.name = "go deadlock",
     .text = "fatal error: all goroutines are asleep - deadlock!\n"
             "\n"
             "goroutine 1 [chan receive]:\n"
             "main.SECRET()\n"
             "\t/srv/main.go:5 +0x27\n",
     .is_trace = true,
     .what = "fatal error: all goroutines are asleep - deadlock!"},
    {.name = "go, its head cut off",
     .text = "main.SECRET()\n"
             "\t/srv/main.go:5 +0x27\n"
             "\n"
             "goroutine 7 [chan receive]:\n"
             "main.SECRET()\n"
             "\t/srv/main.go:5 +0x27\n",
     .is_trace = true,
     .is_cut = true},
    {.name = "rust",
     .text = "\n"
             "thread 'main' (19058) panicked at src/main.rs:1:40:\n"
             "index out of bounds: the len is 3 but the index is 7\n"
             "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
     .is_trace = true,
     .what = "index out of bounds: the len is 3 but the index is 7"},
    {.name = "rust, frames",
     .text =
         "\n"
         "thread 'main' panicked at src/main.rs:1:24:\n"
         "assertion `left == right` failed: values\n"
         "  left: SECRET\n"
         " right: 2\n"
         "stack backtrace:\n"
         "   0: __rustc::rust_begin_unwind\n"
         "             at /rustc/59807616/library/std/src/panicking.rs:689:5\n"
         "   1: SECRET::main\n"
         "             at ./src/main.rs:1:24\n"
         "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n"
         "bye\n",
     .is_trace = true,
     .what = "assertion `left == right` failed: values",
     .rest = "bye\n"},
    {.name = "rust, full",
     .text =
         "thread 'worker' panicked at src/main.rs:1:24:\n"
         "boom\n"
         "stack backtrace:\n"
         "   0:     0x5560b1d9986a - std[e28293b1]::libunwind::trace\n"
         "                               at /rustc/59807616/library/std/src/libunwind.rs:117:9\n"
         "  39:                0x0 - <SECRET>\n",
     .is_trace = true,
     .what = "boom"},
    {.name = "rust before 1.73",
     .text = "thread 'main' panicked at 'boom', src/main.rs:2:5\n"
             "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
     .is_trace = true,
     .what = "panicked at 'boom', src/main.rs:2:5"},
    {.name = "asan",
     .text = "=================================================================\n"
             "==19062==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000010\n"
             "READ of size 4 at 0x602000000010 thread T0\n"
             "    #0 0x55b786ca61f2 in SECRET /srv/a.c:3\n"
             "\n"
             "freed by thread T0 here:\n"
             "    #0 0x7fd805ab76a8 in __interceptor_free ../src/libsanitizer/asan_malloc.cpp:52\n"
             "\n"
             "SUMMARY: AddressSanitizer: heap-use-after-free /srv/a.c:3 in main\n"
             "Shadow bytes around the buggy address:\n"
             "  0x0c047fff7fb0: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
             "=>0x0c047fff8000: fa fa[fd]fa fa fa fa fa fa fa fa fa fa fa fa fa\n"
             "Shadow byte legend (one shadow byte represents 8 application bytes):\n"
             "  Addressable:           00\n"
             "==19062==ABORTING\n",
     .is_trace = true,
     .what = "AddressSanitizer: heap-use-after-free /srv/a.c:3 in main"},
    {.name = "asan, killed within",
     .text = "AddressSanitizer:DEADLYSIGNAL\n"
             "=================================================================\n"
             "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x0\n"
             "    #0 0x55b786ca61f2 in SECRET /srv/a.c:3\n",
     .is_trace = true,
     .what = "AddressSanitizer: SEGV on unknown address 0x0"},
    {.name = "lsan",
     .text = "\n"
             "=================================================================\n"
             "==19063==ERROR: LeakSanitizer: detected memory leaks\n"
             "\n"
             "Direct leak of 4 byte(s) in 1 object(s) allocated from:\n"
             "    #0 0x7f03d22b89cf in SECRET ../src/asan_malloc.cpp:69\n"
             "\n"
             "SUMMARY: AddressSanitizer: 4 byte(s) leaked in 1 allocation(s).\n",
     .is_trace = true,
     .what = "AddressSanitizer: 4 byte(s) leaked in 1 allocation(s)."},
    {.name = "tsan",
     .text = "==================\n"
             "WARNING: ThreadSanitizer: data race (pid=19065)\n"
             "  Read of size 4 at 0x55734d40f054 by main thread:\n"
             "    #0 SECRET /srv/t.c:3 (t_tsan+0x1241)\n"
             "\n"
             "SUMMARY: ThreadSanitizer: data race /srv/t.c:3 in main\n"
             "==================\n"
             "ThreadSanitizer: reported 1 warnings\n",
     .is_trace = true,
     .what = "ThreadSanitizer: data race /srv/t.c:3 in main"},
    {.name = "ubsan",
     .text = "u.c:2:52: runtime error: signed overflow: 2147483647 + 1 is not an 'int'\n"
             "    #0 0x556306928178 in SECRET /srv/u.c:2\n",
     .is_trace = true,
     .what = "u.c:2:52: runtime error: signed overflow: 2147483647 + 1 is not an 'int'"},
    {.name = "nothing", .text = ""},
    {.name = "plain", .text = "oh no\n", .rest = "oh no\n"},
    {.name = "words about frames",
     .text = "meet me\n"
             "  at noon\n"
             "  from home\n"
             "panic: a word\n"
             "File \"a\", line 3\n",
     .rest = "meet me\n"
             "  at noon\n"
             "  from home\n"
             "panic: a word\n"
             "File \"a\", line 3\n"},
    {.name = "c++",
     .text = "terminate called after throwing an instance of 'std::runtime_error'\n"
             "  what():  cpp bad\n",
     .rest = "terminate called after throwing an instance of 'std::runtime_error'\n"
             "  what():  cpp bad\n"},
    {.name = "a warning of Python",
     .text = "/srv/warn.py:2: UserWarning: old thing\n"
             "  warnings.warn(SECRET)\n"
             "no room\n",
     .rest = "/srv/warn.py:2: UserWarning: old thing\n"
             "no room\n"},
    {.name = "a compiler",
     .text = "x.c:3:5: error: expected ';'\n"
             "    3 |   int SECRET\n"
             "      |       ^~~~\n",
     .rest = "x.c:3:5: error: expected ';'\n"},
    {.name = "glibc",
     .text = "double free or corruption (out)\n"
             "./a.out(SECRET+0x1234) [0x55d0aa]\n",
     .rest = "double free or corruption (out)\n"},
    {.name = "valgrind",
     .text = "==7== Invalid read of size 4\n"
             "==7==    at 0x10916B: SECRET (a.c:5)\n"
             "==7==    by 0x10916B: SECRET (a.c:7)\n",
     .rest = "==7== Invalid read of size 4\n"},
    {.name = "a log of JSON",
     .text = "{\"level\":\"error\",\"exc\":\"Traceback (most recent call last):\\n    SECRET\"}\n"
             "no room\n",
     .rest = "no room\n"},
};

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static void expect_part(const struct sample *sample, struct run_part part, const char *text)
{
    cr_expect(part.bytes == strlen(text) && memcmp(sample->text + part.at, text, part.bytes) == 0,
              "%s: not '%s' but '%.*s'", sample->name, text, (int)part.bytes,
              sample->text + part.at);
}

Test(run_trace, tells_what_happened_from_where_it_did)
{
    static char rest[TEXT_BYTES_MAX];
    for (size_t i = 0; i < COUNT(samples); i++) {
        const struct sample *sample = &samples[i];
        size_t bytes = strlen(sample->text);
        struct run_trace trace;
        run_trace_find(sample->text, bytes, sample->is_cut, &trace);
        cr_expect_eq(trace.end > 0, sample->is_trace, "%s", sample->name);
        expect_part(sample, trace.what, text_of(sample->what));
        expect_part(sample, trace.cause, text_of(sample->cause));
        size_t left = run_trace_strip(sample->text + trace.end, bytes - trace.end, rest);
        rest[left] = '\0';
        cr_expect_str_eq(rest + strspn(rest, "\n"), text_of(sample->rest), "%s", sample->name);
        const char *secret = strstr(sample->text, "SECRET");
        size_t last = trace.whole.at + trace.whole.bytes;
        cr_expect(!sample->is_trace || secret == NULL || (size_t)(secret - sample->text) < last,
                  "%s: the trace lacks it", sample->name);
    }
}

/* Chained tracebacks are one trace; an earlier one that was only logged is another. */
Test(run_trace, takes_a_chain_whole_and_leaves_out_what_came_before)
{
    static const char first[] = "Traceback (most recent call last):\n  File \"a\", line 1, in f\n"
                                "    x()\nKeyError: 'a'\n";
    static const char chain[] =
        "\nDuring handling of the above exception, another exception occurred:\n\n";
    char text[1024];
    struct run_trace trace;
    snprintf(text, sizeof text, "%sstill here\n%s%s%s", first, first, chain, first);
    run_trace_find(text, strlen(text), false, &trace);
    cr_assert_eq(trace.whole.at, strlen(first) + strlen("still here\n"));
    cr_assert_eq(trace.whole.at + trace.whole.bytes, strlen(text));
    cr_assert_eq(trace.end, strlen(text));
}

Test(run_trace, has_the_last_line_that_is_of_no_trace)
{
    static const struct {
        const char *text, *line;
        bool is_cut;
    } cases[] = {
        {"", "", false},
        {"\n\r\n", "", false},
        {"first\nlast\n\n\r\n", "last", false},
        {"last\nunfinished", "unfinished", false},
        {"first\nTraceback (most recent call last):\n  File \"a\", line 1, in f\n    SECRET", "",
         false},
        {"    SECRET", "", true},
        {"epoch 1\n  File \"a\", line 1, in f\n    x\nE: b\nepoch 2\n", "epoch 2", false},
    };
    char line[256];
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t bytes =
            run_trace_last_line(cases[i].text, strlen(cases[i].text), cases[i].is_cut, line);
        cr_expect_eq(bytes, strlen(cases[i].line), "case %zu: %.*s", i, (int)bytes, line);
        cr_expect_eq(memcmp(line, cases[i].line, bytes), 0, "case %zu", i);
    }
}

/* ---- anything at all --------------------------------------------------------------------------*/

static uint64_t state;

static size_t below(size_t most)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)((state >> 33) % most);
}

static void expect_within(struct run_part part, size_t bytes)
{
    cr_assert(part.at <= bytes && part.bytes <= bytes - part.at);
}

static bool has_secret(const char *text, size_t bytes)
{
    return memmem(text, bytes, "SECRET", 6) != NULL;
}

/* Looks at text in a piece of memory of just its size, so that a byte too far is seen. */
static bool leaks(const char *text, size_t bytes, bool is_cut)
{
    struct run_trace trace;
    char *exact = malloc(bytes + (bytes == 0));
    char *rest = malloc(bytes + (bytes == 0));
    cr_assert(exact != NULL && rest != NULL);
    memcpy(exact, text, bytes);
    run_trace_find(exact, bytes, is_cut, &trace);
    expect_within(trace.what, bytes);
    expect_within(trace.cause, bytes);
    expect_within(trace.whole, bytes);
    cr_assert(trace.end <= bytes && (trace.end > 0 || trace.what.bytes == 0));
    size_t left = run_trace_strip(exact + trace.end, bytes - trace.end, rest);
    cr_assert_leq(left, bytes - trace.end);
    bool is_leak = has_secret(rest, left) || has_secret(exact + trace.what.at, trace.what.bytes) ||
                   has_secret(exact + trace.cause.at, trace.cause.bytes);
    free(exact);
    free(rest);
    return is_leak;
}

/* Up to four samples one behind the other. */
static size_t mix(char text[TEXT_BYTES_MAX])
{
    size_t bytes = 0;
    for (size_t left = 1 + below(4); left > 0; left--) {
        const struct sample *sample = &samples[below(COUNT(samples))];
        size_t more = strlen(sample->text);
        if (sample->is_cut || bytes + more + 1 > TEXT_BYTES_MAX) {
            continue;
        }
        memcpy(text + bytes, sample->text, more);
        bytes += more;
        if (bytes > 0 && text[bytes - 1] != '\n') {
            text[bytes++] = '\n';
        }
    }
    return bytes;
}

Test(run_trace, lets_no_source_line_past_wherever_the_text_begins)
{
    static char text[TEXT_BYTES_MAX];
    for (size_t round = 0; round < ROUNDS; round++) {
        state = round;
        size_t bytes = mix(text);
        cr_assert_not(leaks(text, bytes, false), "round %zu: %.*s", round, (int)bytes, text);
        size_t skip = bytes > 0 ? below(bytes) : 0;
        const char *newline = memchr(text + skip, '\n', bytes - skip);
        skip = newline != NULL ? (size_t)(newline - text) + 1 : bytes; /* as its caller does */
        cr_assert_not(leaks(text + skip, bytes - skip, true), "round %zu: %.*s", round,
                      (int)(bytes - skip), text + skip);
    }
}

Test(run_trace, takes_any_bytes)
{
    static const char alphabet[] = "\n\n\t  ^|:#(){}\"'[]0=atFile,line.go";
    static char text[TEXT_BYTES_MAX];
    for (size_t round = 0; round < ROUNDS; round++) {
        state = round;
        size_t bytes = mix(text);
        for (size_t changes = below(20); changes > 0 && bytes > 0; changes--) {
            bool is_byte = below(4) == 0;
            text[below(bytes)] = is_byte ? (char)below(256) : alphabet[below(sizeof alphabet - 1)];
        }
        bytes = bytes > 0 ? below(bytes + 1) : 0;
        (void)leaks(text, bytes, round % 2 == 0); /* it may: what was changed is another text */
    }
}

/* A caller waits for it: each line is looked at a few times, however the text is made. */
Test(run_trace, is_done_with_hostile_texts, .timeout = 200)
{
    enum { BYTES = 1 << 20 };
    static const char *const units[] = {"\n",
                                        "  File \"\", line \n",
                                        "panic: \n",
                                        "thread '' panicked at \n",
                                        "x\n\tat a(\n",
                                        "==1==ERROR: xSanitizer: \n",
                                        "Exception in thread \"\n",
                                        "Fatal Python error: \n",
                                        "Caused by: \n",
                                        "\tat a(\nCaused by: \n"};
    char *text = malloc(BYTES);
    cr_assert_not_null(text);
    for (size_t i = 0; i < COUNT(units); i++) {
        size_t unit = strlen(units[i]);
        for (size_t at = 0; at < BYTES; at++) {
            text[at] = units[i][at % unit];
        }
        (void)leaks(text, BYTES, i % 2 == 0);
    }
    free(text);
}
