# SPDX-License-Identifier: MPL-2.0
# report.awk -- from what prove and cut wrote, lines of JSON, to a table, a page, and the data of its plots.
#
#   -v mode=table     the table, for a terminal
#   -v mode=data      -v folder=DIR: the data of the plots, a file each
#   -v mode=page      -v folder=DIR: the page in HTML; where DIR/<plot>.svg is there, it is on it

# "NAME":{"WHO":NUMBER,...}: what of each of them, and of all together.
function add_each(what, row, name,    at, part, pair, i, n, who)
{
    at = index($0, "\"" name "\":{")
    if (at == 0)
        return
    at = substr($0, at + length(name) + 4)
    n = split(substr(at, 1, index(at, "}") - 1), part, ",")
    for (i = 1; i <= n; i++) {
        split(part[i], pair, ":")
        who = substr(pair[1], 2, length(pair[1]) - 2)
        if (!((what, who) in is_one)) {
            is_one[what, who] = 1
            ones[what, ++one_count[what]] = who
        }
        add(what, row, pair[2] + 0)
        add(what " of " who, row, pair[2] + 0)
    }
}

function add(what, row, value)
{
    if (value < 0)
        return
    count[what, row]++
    values[what, row, count[what, row]] = value
}

# By insertion: a row has as many values as there were faults of its kind.
function in_order(what, row,    i, j, n, held)
{
    n = count[what, row]
    for (i = 2; i <= n; i++) {
        held = values[what, row, i]
        for (j = i - 1; j >= 1 && values[what, row, j] > held; j--)
            values[what, row, j + 1] = values[what, row, j]
        values[what, row, j + 1] = held
    }
    return n
}

function at_share(what, row, share,    n)
{
    n = in_order(what, row)
    return n == 0 ? -1 : values[what, row, 1 + int((n - 1) * share)]
}

function shown(value, unit)
{
    return value < 0 ? "-" : sprintf("%.0f%s", value, unit)
}

function row_of(kind)
{
    if (!(kind in is_row)) {
        is_row[kind] = 1
        rows[++row_count] = kind
    }
    return kind
}

/"what":"fault"/ {
    row = row_of(text("kind"))
    done[row]++
    longer[row] += index($0, "\"longer\":true") > 0
    add("detected", row, number("detected_ms"))
    add_each("waited", row, "waited_ms")
    add_each("slowest", row, "slowest_ms")
    add("least", row, number("least_percent"))
    add("recovered", row, number("recovered_ms"))
    faults++
    fault_at[faults] = number("at_s")
    fault_row[faults] = row
    next
}

# A case of the table of cuts (tests/cut).
/"case":"/ {
    row = row_of("cut: " text("kind") (text("end") != "both" ? " " text("end") : ""))
    done[row]++
    longer[row] += index($0, "\"longer\":true") > 0
    add("detected", row, number("detected_ms"))
    add("waited", row, number("waited_ms"))
    if (text("outcome") == "resumed")
        add("recovered", row, number("resumed_ms"))
    cut_lost += number("lost")
    cut_twice += number("twice")
    cases++
    cases_bad += index($0, "\"ok\":true") == 0
    next
}

/"mutation":"/ {
    mutations++
    if (index($0, "\"caught\":true") == 0)
        missed = missed " " text("mutation")
    next
}

/"what":"second"/ {
    seconds++
    second_at[seconds] = number("at_s")
    frames[seconds] = number("frames")
    latency[seconds] = number("latency_us")
    memory[seconds] = number("broker_kib")
    descriptors[seconds] = number("broker_fds")
    next
}

/"what":"step"/ {
    steps++
    step[steps] = text("name") "|" text("end") "|" number("seconds")
    steps_bad += text("end") == "not kept"
    next
}

/"what":"slope"/ {
    slopes++
    slope[slopes] = sprintf("%s|%.0f %s|%+.1f %s an hour|%+.1f %s, bound %.0f|%s", text("name"), number("mean"),
        text("unit"), number("an_hour"), text("unit"), number("growth"), text("unit"), number("bound"),
        index($0, "\"judged\":false") ? "not judged" : index($0, "\"flat\":true") ? "flat" : "NOT FLAT")
    next
}

/"what":"end"/ {
    runs++
    stops += index($0, "\"stopped\":true") > 0
    is_bad += index($0, "\"ok\":true") == 0
    words = words (text("words") != "" ? text("words") " " : "")
    acknowledged += number("acknowledged")
    promises += number("promises")
    answered += number("tasks_answered")
    failed += number("tasks_failed")
    done_tasks += number("tasks_done")
    dead += number("tasks_dead")
    again += number("tasks_again")
    needs += number("needs")
    attachments += number("attachments")
    ran_s += number("seconds")
    watches += number("watches")
    incarnations_over += number("incarnations_over")
    has_links += index($0, "\"links\":true") > 0
    seeds = seeds (seeds != "" ? ", " : "") number("seed")
    next
}

function sentence(    line)
{
    if (runs > 0)
        line = sprintf("%d faults in %.0f s, %d values acknowledged, %d promises settled: ", faults, ran_s,
            acknowledged, promises) \
            (is_bad ? "BROKEN: " words : "nothing lost, nothing twice, every wait ended") ".\n"
    if (stops > 0)
        line = line "It was stopped before its time, and does not tell of the watch that was going on.\n"
    if (answered + failed + done_tasks + dead > 0)
        line = line sprintf("%d tasks%s: %d answered, %d failed, %d done without an answer, %d dead letters; " \
            "%d were given again.\n%d values needed an answer and ended as it did, %d attachments came back whole.\n",
            answered + failed + done_tasks + dead, is_bad ? "" : ", each ended once and as it must", answered, failed,
            done_tasks, dead, again, needs, attachments)
    if (cases > 0)
        line = line sprintf("%d cases of cut links, %d not as they must be: %d values lost, %d twice.\n", cases,
            cases_bad, cut_lost, cut_twice)
    if (mutations > 0)
        line = line sprintf("%d ways to break the bus on purpose, %s.\n", mutations,
            missed == "" ? "all noticed" : "not noticed:" missed)
    return line
}

# The middle one and the longest.
function both(what, row, unit)
{
    return count[what, row] == 0 ? "-" : \
        shown(at_share(what, row, 0.5), "") " / " shown(at_share(what, row, 1), unit)
}

function is_told_of_each(row)
{
    return count["waited", row] + count["slowest", row] > 0 && one_count["slowest"] > 0
}

# How long each survivor waited, by kind: told of who is lost; and for what nobody harmed.
function print_survivors(    i, j, row)
{
    printf "\n%-36s", "until it was told who is lost, or"
    for (j = 1; j <= one_count["waited"]; j++)
        printf " %13s", ones["waited", j]
    for (j = 1; j <= one_count["slowest"]; j++)
        printf " %13s", "slowest " ones["slowest", j]
    print ""
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        if (!is_told_of_each(row))
            continue
        printf "%-36s", row
        for (j = 1; j <= one_count["waited"]; j++)
            printf " %13s", both("waited of " ones["waited", j], row, "")
        for (j = 1; j <= one_count["slowest"]; j++)
            printf " %13s", both("slowest of " ones["slowest", j], row, "")
        print ""
    }
    print "\nMilliseconds from the fault on.  p0, p1: parties that all others are watched by; r0, r1: readers, who are told of"
    print "writers.  Slowest: the longest that a value took from p0 to p1 or back, or a task of a0, who asks, to its end."
}

function print_table(    i, row, part)
{
    printf "%-36s %5s %7s %18s %18s %8s %16s\n", "what was done", "times", "longer", "told after", \
        "survivors waited", "others", "back after"
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        printf "%-36s %5d %7d %18s %18s %8s %16s\n", row, done[row], longer[row], \
            both("detected", row, " ms"), both("waited", row, " ms"), shown(at_share("least", row, 0), " %"), \
            both("recovered", row, " ms")
    }
    print "\nTimes are the middle one and the longest.  Longer: until the party was taken for lost.  Told: the broker said"
    print "that the party is lost, or the disk full.  Others: of the frames before, what was left in the worst half"
    print "second to those who were not harmed.  Back: all flows again, from the end of the fault on."
    if (one_count["slowest"] > 0)
        print_survivors()
    printf "\n%s", sentence()
    for (i = 1; steps > 1 && i <= steps; i++) {
        split(step[i], part, "|")
        printf "%-40s %-10s %6d s\n", part[1], part[2], part[3]
    }
}

# Where a wait is shown: one line a value, the row's number first, spread a little.
function write_dots(what, file,    i, j, n, row)
{
    printf "" > (folder "/" file)
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        n = in_order(what, row)
        for (j = 1; j <= n; j++)
            printf "%.3f\t%.3f\t%s\n", values[what, row, j], row_number[row] + 0.5 * (j / (n + 1) - 0.5), row \
                > (folder "/" file)
    }
}

function known(value, unit)
{
    return (value > 0) ? value / unit : "-"
}

# The rows that have one of these, numbered for write_dots().
function write_rows(file, what, or_what,    i, row, used)
{
    printf "" > (folder "/" file)
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        if (count[what, row] + count[or_what, row] == 0)
            continue
        row_number[row] = ++used
        printf "%d\t%s\n", used, row > (folder "/" file)
    }
}

function write_data(    i, row)
{
    write_rows("rows", "detected", "waited")
    write_dots("detected", "detected")
    write_dots("waited", "waited")
    write_rows("slowest_rows", "slowest", "slowest")
    write_dots("slowest", "slowest")
    write_rows("recovered_rows", "recovered", "recovered")
    write_dots("recovered", "recovered")
    printf "" > (folder "/least")
    for (i = 1; i <= row_count; i++)
        if (count["least", rows[i]] > 0)
            printf "%s\t%.1f\t%.1f\n", rows[i], at_share("least", rows[i], 0.5), at_share("least", rows[i], 0) \
                > (folder "/least")
    printf "" > (folder "/seconds")
    for (i = 1; i <= seconds; i++)
        printf "%.1f\t%d\t%s\t%s\t%s\n", second_at[i], frames[i], known(latency[i], 1000), \
            known(memory[i], 1024), known(descriptors[i], 1) > (folder "/seconds")
    printf "" > (folder "/faults")
    for (i = 1; i <= faults; i++)
        printf "%.1f\t0\t%s\n", fault_at[i], fault_row[i] > (folder "/faults")
}

function has_plot(name,    line, is_there)
{
    is_there = (getline line < (folder "/" name ".svg")) > 0
    close(folder "/" name ".svg")
    return is_there
}

function put_plot(name,    line)
{
    if (!has_plot(name))
        return
    print "<p>"
    while ((getline line < (folder "/" name ".svg")) > 0)
        if (line !~ /^<\?xml|^<!DOCTYPE|^ "http/)
            print line
    close(folder "/" name ".svg")
    print "</p>"
}

function cell(value)
{
    return "<td>" value "</td>"
}

function page_of_survivors(    i, j, row)
{
    print "<h2>How long each survivor waited</h2>\n<table><tr><th rowspan=2>what was done<th colspan=" one_count["waited"] \
        ">until it was told who is lost, ms<th colspan=" one_count["slowest"] ">the slowest that it waited for, ms</tr>\n<tr>"
    for (j = 1; j <= one_count["waited"]; j++)
        printf "<th>%s", ones["waited", j]
    for (j = 1; j <= one_count["slowest"]; j++)
        printf "<th>%s", ones["slowest", j]
    print "</tr>"
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        if (!is_told_of_each(row))
            continue
        printf "<tr>%s", cell(row)
        for (j = 1; j <= one_count["waited"]; j++)
            printf "%s", cell(both("waited of " ones["waited", j], row, ""))
        for (j = 1; j <= one_count["slowest"]; j++)
            printf "%s", cell(both("slowest of " ones["slowest", j], row, ""))
        print "</tr>"
    }
    print "</table>\n<p>The middle time and the longest. <code>p0</code> and <code>p1</code> watch all others, and exchange" \
        " values; <code>r0</code> and <code>r1</code> read what writers write, and are told of their end behind all of it;" \
        " <code>a0</code> asks workers, and its time is that of a task until it has ended, with all deliveries that took." \
        " Where nobody was lost, what they waited for came late, and that is all.</p>"
}

function print_page(    i, row, part)
{
    print "<!doctype html>\n<meta charset=\"utf-8\">\n<title>Errbus: what was done to it, and what came of it</title>"
    print "<style>body{font:15px/1.45 sans-serif;max-width:62em;margin:2em auto;padding:0 1em}"
    print "table{border-collapse:collapse}td,th{padding:.2em .7em;border-bottom:1px solid #ccc;text-align:right}"
    print "td:first-child,th:first-child{text-align:left}.bad{color:#b00}</style>"
    print "<h1>What was done to it, and what came of it</h1>"
    is_wrong = is_bad + cases_bad + steps_bad > 0 || missed != ""
    printf "<p%s>%s</p>\n", (is_wrong ? " class=\"bad\"" : ""), sentence()
    if (runs > 0)
        print "<p>A real broker, and parties that write, read, ask and work through it, were harmed, one thing at a time," \
            " while all went on. Writers and readers kept diaries, which were held against each other in the end: what was" \
            " acknowledged must have been received, once, in its place, the same by all; what was promised, or asked, must" \
            " have ended; and those who were not harmed must have been told in time of who was lost. The first thing that" \
            " is not so would have ended the run, and be named here. Times are those of this machine and what else it" \
            " had to do; <code>tests/README.md</code> says what each row is.</p>"
    if (runs > 0)
        printf "<p>Seeds %s; %d watches; %d incarnations declared over; cables %s.</p>\n", \
            seeds, watches, incarnations_over, \
            has_links ? "cut" : "left out, for network namespaces are not allowed here"
    if (steps > 1) {
        print "<table><tr><th>part of the run<th>its promises<th>seconds</tr>"
        for (i = 1; i <= steps; i++) {
            split(step[i], part, "|")
            print "<tr>" cell(part[1]) cell(part[2]) cell(part[3]) "</tr>"
        }
        print "</table>"
    }
    print "<table><tr><th>what was done<th>times<th>longer<th>told after, ms<th>longest<th>survivors waited, ms" \
        "<th>longest<th>others, worst<th>back after, ms<th>longest</tr>"
    for (i = 1; i <= row_count; i++) {
        row = rows[i]
        print "<tr>" cell(row) cell(done[row]) cell(longer[row]) cell(shown(at_share("detected", row, 0.5), "")) \
            cell(shown(at_share("detected", row, 1), "")) cell(shown(at_share("waited", row, 0.5), "")) \
            cell(shown(at_share("waited", row, 1), "")) cell(shown(at_share("least", row, 0), " %")) \
            cell(shown(at_share("recovered", row, 0.5), "")) cell(shown(at_share("recovered", row, 1), "")) "</tr>"
    }
    print "</table>\n<p>Times are the middle one and the longest. Longer: it lasted until the party was taken for lost," \
        " which a party here is after 2500 ms of silence, or 2000 ms after its connection closed. Told: the broker said" \
        " that the party is lost, or the disk full. Others: of the frames" \
        " before, what was left in the worst half second to those who were not harmed.</p>"
    if (one_count["slowest"] > 0)
        page_of_survivors()
    print "<h2>From the fault until the broker told of it, by kind</h2>\n<p>A dot for each time.</p>"
    put_plot("detected")
    print "<h2>From the fault until each survivor had been told</h2>\n<p>A dot for each of them: what it waited for" \
        " from who was lost had ended, by an error in its place.</p>"
    put_plot("waited")
    if (one_count["slowest"] > 0) {
        print "<h2>What took longest meanwhile</h2>\n<p>A dot for each fault and each of those who were not harmed: the" \
            " slowest value, or task, that it waited for, from the fault until all flowed again.</p>"
        put_plot("slowest")
    }
    print "<h2>From the end of the fault until all flows again</h2>"
    put_plot("recovered")
    print "<h2>What was left to the others</h2>\n<p>In the worst half second.</p>"
    put_plot("least")
    if (seconds > 0) {
        print "<h2>Second by second</h2>"
        put_plot("frames")
        put_plot("latency")
        put_plot("memory")
        put_plot("descriptors")
    }
    if (slopes > 0) {
        print "<h2>Slopes</h2>\n<table><tr><th>what<th>mean<th>slope<th>in the second half<th></tr>"
        for (i = 1; i <= slopes; i++) {
            split(slope[i], part, "|")
            print "<tr>" cell(part[1]) cell(part[2]) cell(part[3]) cell(part[4]) cell(part[5]) "</tr>"
        }
        print "</table>"
    }
    if (!has_plot("detected") && !has_plot("recovered") && !has_plot("frames"))
        print "<p>There are no plots: gnuplot is not installed (Debian: gnuplot-nox).</p>"
}

END {
    if (mode == "table")
        print_table()
    else if (mode == "data")
        write_data()
    else
        print_page()
}
