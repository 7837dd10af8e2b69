# shellcheck shell=bash
# lib/history.sh - what the ledger says of the jobs before this one
#
# Functions; each prints one word or number
#   ol_history_load             copy the run's ledger to the node: the questions below never touch the shared file system
#   ol_history_parent           the job that submitted this one, or nothing
#   ol_history_successors       jobs that the run's own jobs have submitted, newest first, without this one
#   ol_history_stuck STEP       how many jobs in a row, this one included, began at durable step STEP
#   ol_history_same PRINT STEP  how often a failure with this fingerprint and step has ended an attempt, since the run has last
#                               been further
#   ol_history_tried CLASS [KEY VALUE]   how many endings of this class (with this field) were gone on after, since the run
#                               has last been further
#   ol_history_elsewhere PRINT STEP HOSTS   other hosts than these (comma list) on which it has ended at that step, or nothing
#   ol_history_tries PRINT      what this job has tried against it (lib/ladder.sh): `TIMES SLOT OUT FURTHER BLIND`, that is how often it
#                               was launched again after it; which place was last moved for it and from which host (`- -`: none);
#                               1: a step beyond it has become durable since; 1: the job has had its blind swap
#   ol_history_rapid SEC        how many attempts in a row crashed within SEC seconds
#   ol_history_jobs             how many jobs the run has had
#   ol_history_node_hours       how many node hours they took, whole numbers
#   ol_history_end JOB          the class in which that job ended, or nothing
#   ol_history_durable          the newest step that the run has made durable, or nothing
#   ol_history_knows_durable STEP  has the event come that says so of that step? The sidecar writes the step down a moment before
#   ol_history_since_hook       how many steps became durable since the on_durable command has run
#   ol_history_resumed_s        when a person last said go on, UTC seconds since 1970, else 0
#   ol_history_margin_s         the margin of the last job that was cut off at its walltime, else 0
#   ol_history_cadence          what jobs have learned of the trainer's cadence, the words of ol_cadence_recall
#   ol_history_stop_s           what a stop takes: from our request to the last copy, or a copy alone where that is longer; medians
#
# A `resumed` event (somebody looked and said go on) starts the counts anew.
# Reads    OUTLAST_STATE, OUTLAST_RUN_DIR, OUTLAST_JOB_ID
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

# The newest 8 MB are enough for any of the counts.
ol_history_load() {
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c '[[ ! -e $1 ]] || tail -c 8000000 "$1" >"$2"' _ \
    "$OUTLAST_RUN_DIR/events.jsonl" "$OUTLAST_STATE/history.jsonl"
}

# awk over the whole ledger; get(KEY) is the field's value without its quotes. The lines are our own
# (lib/ledger.sh, ledger.py), so no JSON parser is needed; a line that was sent twice counts once.
_ol_history_awk() { # PROGRAM [VAR=VALUE]...
  local program=$1
  shift
  touch "$OUTLAST_STATE/history.jsonl" "$OUTLAST_STATE/events.jsonl"
  # shellcheck disable=SC2016 # awk's
  awk '
    function get(key) {
      if (!match($0, "\"" key "\":(\"[^\"]*\"|[^,}]*)")) return ""
      value = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
      gsub(/^"|"$/, "", value)
      return value
    }
    !/^{"t":.*}$/ || seen[get("t") get("job") "." get("restart") "." get("seq") "." get("event")]++ { next }
    { event = get("event") }
    '"$program" me="$OUTLAST_JOB_ID" "$@" "$OUTLAST_STATE/history.jsonl" "$OUTLAST_STATE/events.jsonl"
}

ol_history_parent() {
  _ol_history_awk 'event == "submitted" && get("successor") == me { parent = get("job") }
    END { if (parent != "" && parent != me) print parent }'
}

ol_history_successors() {
  _ol_history_awk 'event == "submitted" && get("successor") != me { id[n++] = get("successor") }
    END { while (n-- > 0) print id[n] }' | head -n 5
}

# Jobs that were taken away from us (preempted, requeued) had no fair chance.
ol_history_stuck() {
  _ol_history_awk '
    event == "resumed" { n = 0 }
    event == "started" { name[++n] = get("job") "." get("restart"); step[n] = get("durable_step") }
    event == "ended" { class[get("job") "." get("restart")] = get("class") }
    END {
      for (; n > 0; n--) {
        if (class[name[n]] ~ /^(preempted|requeued|cancelled)$/) continue
        if (step[n] + 0 != want + 0) break
        count++
      }
      print count + 0
    }' want="$1"
}

# A durable checkpoint beyond what had failed says that it was overcome.
ol_history_same() {
  _ol_history_awk '
    event == "resumed" { count = reached = 0 }
    event == "checkpoint_durable" && get("step") + 0 > reached { count = 0 }
    event == "ended" && get("fingerprint") == print_ && get("step") + 0 == want + 0 {
      count++
      reached = get("step") + 0 > get("durable_step") + 0 ? get("step") + 0 : get("durable_step") + 0
    }
    END { print count + 0 }' print_="$1" want="$2"
}

ol_history_tried() {
  _ol_history_awk '
    event == "resumed" { count = reached = 0 }
    event == "checkpoint_durable" && get("step") + 0 > reached { count = 0 }
    event == "ended" && get("class") == class && (key == "" || get(key) == value_) && get("then") ~ /^(relaunch|submit)$/ {
      count++
      reached = get("step") + 0 > get("durable_step") + 0 ? get("step") + 0 : get("durable_step") + 0
    }
    END { print count + 0 }' class="$1" key="${2:-}" value_="${3:-}"
}

# A list as long as the ledger's fields may be was cut (lib/ledger.sh): a host of ours may stand behind the cut.
ol_history_elsewhere() {
  ((${#3} < 100000)) || return 0 # more is no word of a command line
  _ol_history_awk '
    { launch = get("job") "." get("restart") "." get("attempt") }
    event == "resumed" { other = "" }
    event == "launched" { on[launch] = get("hosts") }
    event == "ended" && get("fingerprint") == print_ && get("step") + 0 == want + 0 && on[launch] != "" {
      if (length(on[launch]) >= 800) next
      n = split(on[launch], host, ",")
      for (i = 1; i <= n; i++) if (index("," hosts ",", "," host[i] ",")) next
      other = on[launch]
    }
    END { if (other != "") print other }' print_="$1" want="$2" hosts="$3"
}

ol_history_tries() {
  _ol_history_awk '
    get("job") != me || get("restart") + 0 != restart + 0 { next }
    event == "ended" && get("fingerprint") == print_ && get("then") == "relaunch" {
      times++
      reached = get("step") + 0 > get("durable_step") + 0 ? get("step") + 0 : get("durable_step") + 0
    }
    event == "checkpoint_durable" && get("step") + 0 > reached { further = 1 }
    event == "swapped" && get("how") == "blind" { blind = 1 }
    event == "swapped" && get("how") != "" && get("fingerprint") == print_ { slot = get("slot"); out = get("out"); further = 0 }
    END { print times + 0, (out == "" ? "- -" : slot " " out), further + 0, blind + 0 }' print_="$1" restart="$OUTLAST_RESTART"
}

ol_history_rapid() {
  _ol_history_awk '
    event == "resumed" { count = 0 }
    event == "ended" && get("fingerprint") != "" {
      if (get("ran_s") + 0 < limit + 0) count++; else count = 0
    }
    event == "ended" && get("class") ~ /^walltime/ { count = 0 }
    END { print count + 0 }' limit="$1"
}

ol_history_jobs() {
  _ol_history_awk 'event == "started" && !had[get("job")]++ { count++ } END { print count + 0 }'
}

ol_history_node_hours() {
  _ol_history_awk '
    { run = get("job") "." get("restart") } # what a requeued job used before counts as well
    event == "started" { nodes[run] = get("nodes"); begun[run] = get("t") }
    { last[run] = get("t") }
    END { for (run in begun) sum += nodes[run] * (last[run] - begun[run]); printf "%d\n", sum / 3600 }'
}

ol_history_end() {
  _ol_history_awk '
    event == "resumed" { class = "" }
    event == "ended" && get("job") == want { class = get("class") }
    END { if (class != "") print class }' want="$1"
}

ol_history_durable() {
  _ol_history_awk '
    event == "resumed" { step = "" }
    event == "checkpoint_durable" { step = get("step") }
    END { if (step != "") print step }'
}

ol_history_knows_durable() {
  grep -qsE "\"event\":\"checkpoint_durable\",\"step\":$1[,}]" "$OUTLAST_STATE/events.jsonl" "$OUTLAST_STATE/history.jsonl"
}

ol_history_since_hook() {
  _ol_history_awk '
    event == "on_durable" { count = 0; split("", had) }
    event == "checkpoint_durable" && !had[get("step")]++ { count++ }
    END { print count + 0 }'
}

ol_history_resumed_s() {
  _ol_history_awk 'event == "resumed" { t = get("t") } END { print t + 0 }'
}

ol_history_margin_s() {
  _ol_history_awk '
    event == "ended" && get("class") == "walltime_late" { margin = get("margin_s") }
    END { print margin + 0 }'
}

# One stall of the file system must not cost every later job a part of its walltime: the middle one of the last three
# stops, and of the last five copies. What became durable otherwise has no seconds.
ol_history_stop_s() {
  _ol_history_awk '
    function middle(list, n, most,    i, j, sorted, count, value) {
      for (i = n; i > 0 && i > n - most; i--) {
        value = list[i] + 0
        for (j = ++count; j > 1 && sorted[j - 1] > value; j--) sorted[j] = sorted[j - 1]
        sorted[j] = value
      }
      return count ? sorted[int(count / 2) + 1] : 0
    }
    { job = get("job") "." get("restart") }
    event == "signal" && get("name") == "stop" && get("from") == "deadline" { asked = get("t"); of = job; stop[++stops] = 0 }
    (event == "ended" || event == "checkpoint_durable") && stops && job == of {
      if (get("t") - asked > stop[stops]) stop[stops] = get("t") - asked
    }
    event == "checkpoint_durable" && get("seconds") != "" { copy[++copies] = get("seconds") }
    END {
      stop_s = middle(stop, stops, 3)
      copy_s = middle(copy, copies, 5)
      print (stop_s > copy_s ? stop_s : copy_s)
    }'
}

# The slowest of the last three launches that learned anything. Of hangs those in a row at one step.
ol_history_cadence() {
  _ol_history_awk '
    event == "cadence" {
      at = get("job") "." get("restart") "." get("attempt")
      if (at != last) { n++; last = at }
      usual[n] = get("usual_s"); longest[n] = get("longest_s"); seen[n] = get("seen_s")
      eval[n] = get("eval_s"); save[n] = get("save_s"); start[n] = get("start_s")
      resume[n] = get("resume_s")
    }
    event == "hang" {
      step = get("step") + 0
      hangs = (hangs && step == hung ? hangs : 0) + 1
      hung = step
    }
    function top(list,    i, value) {
      for (i = n; i > 0 && i > n - 3; i--) if (list[i] + 0 > value) value = list[i] + 0
      return value + 0
    }
    END { print top(usual), top(longest), top(seen), top(eval), top(save), top(start), top(resume), hangs + 0, hung + 0 }'
}
