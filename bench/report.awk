# SPDX-License-Identifier: MPL-2.0
# report.awk -- from lines of JSON as harness.c writes them to a table of ratios, a page, and the
# data of its plots.
#
# -v table=1: prints the table of ratios, and that of what is asked for (-v targets=FILE: targets.table).
# -v page=DIR: prints the page; the plots' data go to DIR, a file each, named in DIR/plots with its
# kind (lines, ratios, percentiles, clusters, bars, time), its title and its unit, between tabs; of
# those with curves DIR/<file>.curves is what gnuplot plots.  Where DIR/<file>.svg is there, it is on
# the page.
# Of lines about the same thing the last one counts.

BEGIN {
    CROWD = 4 # more systems that do one thing have a plot of their own
}

function learn(list, count, seen, name)
{
    if (!(name in seen)) {
        seen[name] = 1
        list[++count] = name
    }
    return count
}

# One window of a time line, or a mark in it, at so many ms.
function learn_moment(cause, mark, ms)
{
    causes = learn(cause_at, causes, cause_seen, cause)
    if (mark != "") {
        marks = learn(mark_at, marks, mark_seen, mark)
        mark_line[cause, mark] = sprintf("%.6g \"%s\"", ms, mark)
    } else {
        windows = learn(window_at, windows, window_seen, ms)
        window_line[cause, ms] = sprintf("%.6g %.6g %.6g %.6g", ms, number("p50"), number("p99"), \
                                         number("max"))
    }
}

# One point of a curve of percentiles.
function learn_percentile(title, curve,    point)
{
    titles = learn(title_at, titles, title_seen, title)
    curves = learn(curve_at, curves, curve_seen, title SUBSEP curve)
    if (number("percent") < last_percent[title, curve])
        points[title, curve] = "" # measured again
    last_percent[title, curve] = number("percent")
    point = sprintf("%.6g %.6g\n", number("percent"), number("us"))
    points[title, curve] = points[title, curve] point
}

# The least number of runs of any row.
function learn_runs(list,    values, count)
{
    count = split(substr(list, 1, index(list, "]")), values, ",")
    if (runs == 0 || count < runs)
        runs = count
}

# "4 KiB": 4096; what is not the size of one value to one reader: 0.
function bytes_of(what,    part)
{
    if (split(what, part, " ") != 2)
        return 0
    return part[1] * (part[2] == "MiB" ? 1048576 : part[2] == "KiB" ? 1024 : part[2] == "B" ? 1 : 0)
}

function shown(value, unit)
{
    if (unit == "1/s")
        return value >= 1e6 ? sprintf("%.2f M/s", value / 1e6) : \
               value >= 1e3 ? sprintf("%.1f k/s", value / 1e3) : sprintf("%.0f /s", value)
    return sprintf(value >= 100 ? "%.0f %s" : "%.1f %s", value, unit)
}

{
    question = text("question")
    what = text("what")
    system_name = text("system")
    if (text("timeline") != "")
        learn_moment(text("timeline"), text("mark"), number("ms"))
    if (text("percentiles") != "")
        learn_percentile(text("percentiles"), text("curve"))
    if (question == "")
        next
    key = question SUBSEP what SUBSEP system_name
    questions = learn(question_at, questions, question_seen, question)
    columns = learn(column_at, columns, column_seen, question SUBSEP what)
    rows = learn(row_at, rows, row_seen, key)
    median[key] = number("median")
    q1[key] = number("q1")
    q3[key] = number("q3")
    ratio[key] = number("ratio")
    n[key] = number("n")
    learn_runs(substr($0, index($0, "\"runs\":[")))
    unit[key] = text("unit")
    machine = text("machine")
    commit = text("commit")
    at = number("at")
    if (ratio[key] > 0 && question != "journal" && question != "link") {
        peers = learn(peer_at, peers, peer_seen, system_name)
        has_ratio[question, what] = 1
    }
    crowd[question, what] += !((key, "counted") in crowd)
    crowd[key, "counted"] = 1
}

# ---- the table of ratios ------------------------------------------------------------------------------

function ratio_of(peer, column)
{
    key = column SUBSEP peer
    return key in ratio && ratio[key] > 0 ? sprintf("%.2f", ratio[key]) : "-"
}

function print_table(    q, c, p, part)
{
    print "Errbus to its peers: rates (throughput, the bulk) are better above 1, times (all else) below."
    for (q = 1; q <= questions; q++) {
        line = ""
        for (c = 1; c <= columns; c++) {
            split(column_at[c], part, SUBSEP)
            if (part[1] == question_at[q] && (part[1], part[2]) in has_ratio)
                line = line sprintf(" %20s", part[2])
        }
        if (line == "")
            continue
        printf "\n%-16s%s\n", question_at[q], line
        for (p = 1; p <= peers; p++) {
            line = ""
            for (c = 1; c <= columns; c++) {
                split(column_at[c], part, SUBSEP)
                if (part[1] == question_at[q] && (part[1], part[2]) in has_ratio)
                    line = line sprintf(" %20s", ratio_of(peer_at[p], column_at[c]))
            }
            if (line ~ /[0-9]/)
                printf "%-16s%s\n", peer_at[p], line
        }
    }
}

# ---- what is asked for --------------------------------------------------------------------------------

function trimmed(name)
{
    gsub(/^ +| +$/, "", name)
    return name
}

# Of "question; what; system", or of the i-th system where it has several; 0: not measured.  What is
# "later by" so much is below 0 where it came sooner.
function median_of(place, i,    part, list, key)
{
    split(place, part, ";")
    split(part[3], list, ",")
    key = trimmed(part[1]) SUBSEP trimmed(part[2]) SUBSEP trimmed(list[i])
    return key in median ? median[key] : 0
}

function is_reached(value, relation, figure)
{
    return relation == ">=" ? value >= figure : relation == "<=" ? value <= figure : value < figure
}

# Sets has, as people read it, and mark: reached, missed, or "" for what was not measured.
function judge(ask, ours, peer,    part, list, i, count, value)
{
    has = mark = ""
    split(ours, part, ";")
    count = split(part[3], list, ",")
    split(ask, part, " ")
    for (i = 1; i <= count; i++) {
        value = median_of(ours, i)
        if (peer != "")
            value = median_of(peer, 1) > 0 ? value / median_of(peer, 1) : 0
        if (value == 0)
            continue
        has = has (has == "" ? "" : "; ") (peer != "" ? sprintf("%.2f", value) : in_unit(value, part[3]))
        if (mark != "reached")
            mark = is_reached(value, part[1], part[2]) ? "reached" : "missed"
    }
    if (has == "")
        has = "not measured"
}

# A figure that stands beside no peer: a time, or in the unit that is asked for.
function in_unit(value, ask_unit)
{
    return ask_unit == "" ? sprintf("%.2f ms", value / 1000) : sprintf("%.2f %s", value, ask_unit)
}

function print_targets(    line, part, ask)
{
    printf "What is asked for, and what this run has: medians of %d run%s", runs, runs == 1 ? "" : "s"
    print ".  a; b: one by one, and many at once."
    printf "\n%-42s %12s %16s\n", "", "asked", "has"
    while ((getline line < targets) > 0) {
        if (line ~ /^#/ || split(line, part, "|") < 4)
            continue
        ask = trimmed(part[2])
        judge(ask, trimmed(part[3]), trimmed(part[4]))
        if (trimmed(part[4]) == "") {
            split(ask, part_of_ask, " ")
            ask = part_of_ask[1] " " in_unit(part_of_ask[2], part_of_ask[3])
        }
        printf "%-42s %12s %16s  %s\n", trimmed(part[1]), ask, has, mark
    }
    close(targets)
}

# ---- the plots ----------------------------------------------------------------------------------------

# A colour and a point for each, the same in all plots.
function colour(base,    i, known)
{
    split("errbus;c0392b;errbus many;7b241c;errbus process;e67e22;errbus disk;b7950b;errbus spin;ff6fae;" \
          "errbus short;f1948a;relay;000000;raw;909090;" \
          "zmq proxy;2e6da4;nats socket;1e8449;" \
          "nats library;58d68d;jetstream;117a65;mosquitto;7d3c98;redis;a569bd;redis stream;5dade2;" \
          "errbus curve;d68910;errbus curve many;784212", \
          known, ";")
    for (i = 1; i in known && !(base in colours); i += 2)
        if (known[i] == base)
            colours[base] = sprintf("lc rgb '#%s' pt %d", known[i + 1], (i + 1) / 2)
    if (!(base in colours)) {
        split("c0392b;2e6da4;1e8449;e67e22;7d3c98;117a65;909090;ff6fae;000000;b7950b", known, ";")
        colours[base] = sprintf("lc rgb '#%s' pt %d", known[others % 10 + 1], ++others)
    }
    return colours[base]
}

# How its curve looks: dashed over ipc, ours thick.
function style(name,    base)
{
    base = name
    sub(/ ipc$/, "", base)
    return sprintf("%s dt %d lw %.1f ps 0.6", colour(base), name == base ? 1 : 2, \
                   name ~ /^errbus/ ? 2.2 : 1.2)
}

# Adds a curve to the plot that file is of; data: where in it, and how it is drawn.
function add_curve(file, data, look, name)
{
    printf "%s'%s' %s %s title \"%s\"", curve_count[file]++ ? ", \\\n" : "", file, data, look, \
           name > (file ".curves")
}

# The same, of lines that are the next block of the file.
function add_block(file, lines, data, name)
{
    printf "%s\n\n", lines > file
    add_curve(file, "index " curve_count[file] + 0 " " data, style(name), name)
}

# Each system by size; is_ratio: divided by what Errbus has, one by one.
function print_lines(file, is_ratio,    r, s, part, block, systems, system_list, seen, base)
{
    for (r = 1; r <= rows; r++) {
        split(row_at[r], part, SUBSEP)
        base = is_ratio ? median["throughput", part[2], "errbus"] : 1
        if (part[1] != "throughput" || bytes_of(part[2]) == 0 || !base)
            continue
        systems = learn(system_list, systems, seen, part[3])
        block[part[3]] = block[part[3]] sprintf("%d %.6g %.6g %.6g\n", bytes_of(part[2]), \
                         median[row_at[r]] / base, q1[row_at[r]] / base, q3[row_at[r]] / base)
    }
    for (s = 1; s <= systems; s++)
        add_block(file, block[system_list[s]], "using 1:2:3:4 with yerrorlines", system_list[s])
    if (systems > 0) {
        close(file)
        close(file ".curves")
        if (is_ratio)
            add_plot("ratios", "Throughput by size, to that of Errbus one by one", "to errbus")
        else
            add_plot("lines", "Throughput by size of the values, one reader", "values a second")
    }
}

# What survives, by size, beside what a broker without a journal carries.
function print_durability(    c, l, part, levels, level_at, file, line, base, value, lines)
{
    levels = split("errbus process,errbus disk,jetstream,redis stream", level_at, ",")
    file = next_plot()
    for (c = 1; c <= columns; c++) {
        split(column_at[c], part, SUBSEP)
        base = part[1] == "throughput" ? median["throughput", part[2], "errbus"] : 0
        if (!base)
            continue
        line = ""
        for (l = 1; l <= levels; l++) {
            value = median["throughput", part[2], level_at[l]]
            line = line (value ? sprintf(" %.6g", value / base) : " -")
        }
        if (line ~ /[0-9]/) {
            printf "\"%s\"%s\n", part[2], line > file
            lines++
        }
    }
    if (!lines)
        return # the next plot has this file
    for (l = 1; l <= levels; l++)
        add_curve(file, "using " l + 1 ":xtic(1)", substr(colour(level_at[l]), 1, 16), level_at[l])
    close(file)
    close(file ".curves")
    add_plot("clusters", "Durability: throughput by what keeps the values, to Errbus without a journal", \
             "to errbus")
}

function print_percentiles(    t, c, part, file)
{
    for (t = 1; t <= titles; t++) {
        file = next_plot()
        for (c = 1; c <= curves; c++) {
            split(curve_at[c], part, SUBSEP)
            if (part[1] == title_at[t])
                add_block(file, points[part[1], part[2]], \
                          "using (-log10(1 - $1 / 100)):2 with linespoints", part[2])
        }
        close(file)
        close(file ".curves")
        add_plot("percentiles", "Percentiles of " title_at[t], "us")
    }
}

# One bar a row: of one thing where many systems do it, else of the whole question.
function print_bars(q,    r, part, group, groups, list, seen, label, g, key, file)
{
    for (r = 1; r <= rows; r++) {
        split(row_at[r], part, SUBSEP)
        if (part[1] != q || (q == "throughput" && bytes_of(part[2]) > 0))
            continue
        key = row_at[r]
        group = q (crowd[q, part[2]] > CROWD ? ": " part[2] : "") "\t" unit[key]
        label = crowd[q, part[2]] > CROWD ? part[3] : part[2] ", " part[3]
        groups = learn(list, groups, seen, group)
        data[group] = data[group] sprintf("\"%s\" %.6g %.6g %.6g %d\n", label, median[key], q1[key], \
                      q3[key], part[3] ~ /^(errbus|in place|tap)/ ? 12603469 : 10141120)
    }
    for (g = 1; g <= groups; g++) {
        split(list[g], part, "\t")
        file = next_plot()
        printf "%s", data[list[g]] > file
        close(file)
        add_plot("bars", part[1], part[2] == "1/s" ? "a second" : part[2])
    }
}

# The windows of each cause, then its marks.
function print_timelines(    c, i, file)
{
    for (c = 1; c <= causes; c++) {
        file = next_plot()
        for (i = 1; i <= windows; i++)
            if ((cause_at[c], window_at[i]) in window_line)
                print window_line[cause_at[c], window_at[i]] > file
        printf "\n\n0 \"%s\"\n", cause_at[c] > file
        for (i = 1; i <= marks; i++)
            if ((cause_at[c], mark_at[i]) in mark_line)
                print mark_line[cause_at[c], mark_at[i]] > file
        close(file)
        add_plot("time", "failures: values of others, by when they were sent; " cause_at[c], "us")
    }
}

function next_plot()
{
    return page "/plot" (plots + 1)
}

function add_plot(kind, title, plot_unit)
{
    plots++
    printf "plot%d\t%s\t%s\t%s\n", plots, kind, title, plot_unit > (page "/plots")
}

# ---- the page -----------------------------------------------------------------------------------------

function print_rows(    r, part, key)
{
    print "<table><tr><th>question<th>what<th>system<th>median<th>quartiles<th>Errbus to it<th>n</tr>"
    for (r = 1; r <= rows; r++) {
        key = row_at[r]
        split(key, part, SUBSEP)
        printf "<tr><td>%s<td>%s<td>%s<td>%s<td>%s, %s<td>%s<td>%d</tr>\n", part[1], part[2], part[3], \
               shown(median[key], unit[key]), shown(q1[key], unit[key]), shown(q3[key], unit[key]), \
               (ratio[key] > 0 ? sprintf("%.2f", ratio[key]) : ""), n[key]
    }
    print "</table>"
}

function print_plots(    p, line, file)
{
    for (p = 1; p <= plots; p++) {
        file = page "/plot" p ".svg"
        while ((getline line < file) > 0)
            if (line !~ /^<[?]xml/ && line !~ /^<!DOCTYPE/ && line !~ /svg11[.]dtd/)
                print line
        close(file)
    }
}

function print_page()
{
    print "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Errbus: measured</title>"
    print "<style>body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    print "table{border-collapse:collapse;font-size:13px}td,th{padding:2px 9px;text-align:left;"
    print "border-bottom:1px solid #ddd}td:nth-child(n+4){text-align:right}svg{max-width:100%;"
    print "height:auto;display:block;margin:1em 0}pre{overflow-x:auto;font-size:12px}</style></head><body>"
    printf "<h1>Errbus, measured</h1><p>%s; commit %s; medians of %d run%s.</p>\n", machine, commit, \
           runs, runs == 1 ? "" : "s"
    if (targets != "") {
        print "<h2>Asked for</h2><pre>"
        print_targets()
        print "</pre>"
    }
    print "<h2>Ratios</h2><pre>"
    print_table()
    print "</pre><h2>Plots</h2>"
    if (plots == 0)
        print "<p>gnuplot is not installed.</p>"
    print_plots()
    print "<h2>All of it</h2>"
    print_rows()
    print "</body></html>"
}

END {
    if (table) {
        print_table()
        if (targets != "") {
            print ""
            print_targets()
        }
    }
    if (page != "" && !is_drawn) {
        printf "" > (page "/plots")
        print_lines(next_plot(), 0)
        print_lines(next_plot(), 1)
        print_durability()
        print_percentiles()
        for (i = 1; i <= questions; i++)
            if (question_at[i] != "failures" && question_at[i] != "link")
                print_bars(question_at[i])
        print_timelines()
        close(page "/plots")
    }
    if (page != "" && is_drawn) {
        plots = is_drawn == "all" ? 0 : is_drawn + 0
        print_page()
    }
}
