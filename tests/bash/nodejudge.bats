#!/usr/bin/env bats
# Whose fault it is, from the answers of many nodes
# shellcheck disable=SC2030,SC2031,SC2034 # a test is a subshell, and that is wanted
load helper

setup() {
  # shellcheck source=../../lib/nodejudge.sh
  source "$ROOT/lib/nodejudge.sh"
  COUNTERS=$BATS_TEST_TMPDIR/counters NEW=$BATS_TEST_TMPDIR/new
  : >"$COUNTERS"
  OUTLAST_PREFLIGHT_FROM_S=1000 OUTLAST_PREFLIGHT_TO_S=1004
}

# `HOST CHECK ANSWER SEEN [EXPECTED]` a line, in this form; a host is one that has said all unless its line is `HOST -`.
judged() { # HOSTS
  local host check answer seen expected
  local -A hosts=()
  while IFS='|' read -r host check answer seen expected; do
    host=${host// /} check=${check// /} answer=${answer// /}
    [[ -n $host ]] || continue
    [[ $check != - ]] || continue
    hosts[$host]=1
    printf '%s\t%s\t%s\t%s\t%s\n' "$host" "$check" "$answer" "${seen# }" "${expected:--}"
  done >"$BATS_TEST_TMPDIR/said"
  for host in "${!hosts[@]}"; do printf '%s\tend\tok\t1\t-\n' "$host"; done >>"$BATS_TEST_TMPDIR/said"
  ol_nodejudge "$1" "$COUNTERS" "$NEW" <"$BATS_TEST_TMPDIR/said" | tr '\t' '|' | sort
}

# Many nodes n1..nN, of which the first BAD say so of CHECK: print how each ruling is met.
of_many() { # N BAD CHECK
  seq "$1" | awk -v bad="$2" -v check="$3" -v OFS='\t' '{ h = "n" $1; print h, check, $1 <= bad ? "bad" : "ok", "x", "-"; print h, "end", "ok", 1, "-" }' |
    ol_nodejudge "$(seq -s, -f 'n%.0f' "$1")" "$COUNTERS" "$NEW" | cut -f 6 | sort | uniq -c | awk '{ printf "%s%s %s", sep, $1, $2; sep = ", " }'
}

@test "nodejudge: a list of hosts that is too long for a word of a command line" {
  printf 'n1\tend\tok\t1\t-\n' | ol_nodejudge "$(seq -s, -f 'x%06.0fc0s0b0n0.hostmgmt2000.cm.example.org' 1 4000)" "$COUNTERS" "$NEW" >"$BATS_TEST_TMPDIR/ruled"
  [ "$(wc -l <"$BATS_TEST_TMPDIR/ruled")" = 4000 ]
}

@test "nodejudge: one or two of eight are to blame, three are the site's problem" {
  [ "$(of_many 8 1 memory)" = "1 bad, 7 ok" ]
  [ "$(of_many 8 2 memory)" = "2 bad, 6 ok" ]
  [ "$(of_many 8 3 memory)" = "5 ok, 3 site" ]
}

@test "nodejudge: GPUs that may take a tenth less than the median are slow; many of them are the site's" {
  run -0 judged n1,n2,n3,n4 <<<'n1 | gpu_clock | ok | 1700 MHz, 560 W
    n2 | gpu_clock | ok | 1700 MHz, 300 W
    n3 | gpu_clock | ok | 1600 MHz, 550 W
    n4 | gpu_clock | ok | 1700 MHz'
  [[ $output == *'n2|gpu_clock|bad|1700 MHz, 300 W|550 W, the median of all|bad'* ]]
  [ "$(grep -c 'gpu_clock|ok' <<<"$output")" = 3 ]
  run -0 judged n1,n2,n3 <<<'n1 | gpu_clock | ok | 900 MHz
    n2 | gpu_clock | ok | 1700 MHz
    n3 | gpu_clock | unknown | it is not told'
  [[ $output != *bad* ]]
  seq 12 | awk -v OFS='\t' '{ print "n" $1, "gpu_clock", "ok", ($1 < 4 ? 900 : 1700) " MHz", "-"; print "n" $1, "end", "ok", 1, "-" }' >"$BATS_TEST_TMPDIR/said"
  run -0 ol_nodejudge "$(seq -s, -f 'n%.0f' 12)" "$COUNTERS" "$NEW" <"$BATS_TEST_TMPDIR/said"
  [ "$(grep -c $'\tsite$' <<<"$output")" = 3 ]
}

@test "nodejudge: of many nodes 5 % are to blame, and all of two are not" {
  [ "$(of_many 100 5 memory)" = "5 bad, 95 ok" ]
  [ "$(of_many 100 6 memory)" = "94 ok, 6 site" ]
  [ "$(of_many 2 2 memory)" = "2 site" ]
}

@test "nodejudge: of the ways to the first node all the others' count; its own is always open" {
  local said='n1 | route | ok | 10.0.0.1 answers'
  run -0 judged n1,n2 <<<"$said
    n2 | route | bad | No route to host"
  [[ $output == *"n2|route|bad|No route to host|-|site"* ]]
  run -0 judged n1,n2,n3 <<<"$said
    n2 | route | bad | No route to host
    n3 | route | bad | No route to host"
  [ "$(grep -c '|site$' <<<"$output")" = 2 ]
  run -0 judged n1,n2,n3 <<<"$said
    n2 | route | ok | 10.0.0.1 answers
    n3 | route | bad | No route to host"
  [[ $output == *"n3|route|bad|No route to host|-|bad"* ]]
}

@test "nodejudge: a node that is alone is to blame for what is broken, not for what a site expects of it" {
  OUTLAST_CHECK_RULES='gpu_memory=bad'
  printf 'n1 gpu_ecc 3 900\n' >"$COUNTERS"
  run -0 judged n1 <<'END'
    n1 | gpu_count | bad | 0
    n1 | gpu_ecc | ok | count=5
    n1 | gpu_memory | unknown | it is not told
    n1 | gpu_model | unknown | no answer within 8 s
    n1 | gpu_remap | bad | 1 pages pending
    n1 | local_disk | bad | 10.0 GiB free
    n1 | modules | unknown | no answer within 8 s
    n1 | memory | bad | 3 of 16 GiB free
    n1 | shared_fs | bad | cannot read
END
  [ "$(cut -d'|' -f 2,6 <<<"$output" | paste -sd' ')" = "gpu_count|site gpu_ecc|bad gpu_memory|site gpu_model|bad gpu_remap|bad local_disk|site memory|site modules|site shared_fs|site" ]
  local seen
  for seen in read-only 'cannot write' 'reads something else than was written'; do
    run -0 judged n1 <<<"n1 | local_disk | bad | $seen"
    [[ $output == *'|bad' ]]
  done
  run -0 judged n1 <<<'n1 | -'
  [[ $output == "n1|answer|bad|no answer|an answer|site" ]]
}

@test "nodejudge: a node that sees no GPU is odd where others see some, and nobody is where none does" {
  run -0 judged n1,n2 <<'END'
    n1 | gpu_count | ok | 8
    n2 | gpu_count | unknown | 0 are shown to this step
END
  [[ $output == *"n2|gpu_count|bad|0 are shown to this step|8, as the others|bad"* ]]
  run -0 judged n1,n2 <<'END'
    n1 | gpu_count | unknown | 0 are shown to this step
    n2 | gpu_count | unknown | 0 are shown to this step
END
  [ "$(grep -c 'unknown.*|pass$' <<<"$output")" = 2 ]
}

@test "nodejudge: ten thousand nodes" {
  [ "$(of_many 10000 500 memory)" = "500 bad, 9500 ok" ]
}

@test "nodejudge: who has not come to its end has not answered, and what is no answer of ours is nothing" {
  run -0 judged n1,n2,n3,n4 <<'END'
    n1 | memory | ok | 500 of 503 GiB free
    n2 | memory | ok | 500 of 503 GiB free
    n3 | memory | ok | 500 of 503 GiB free
    n9 | memory | bad | 0
    n3 | gpu_smell | bad | burnt
    n2 | memory | bad | said twice
    n1 | clock | perhaps | 3
    n4 | -
END
  [ "$output" = "n1|memory|ok|500 of 503 GiB free|-|ok
n2|memory|ok|500 of 503 GiB free|-|ok
n3|memory|ok|500 of 503 GiB free|-|ok
n4|answer|bad|no answer|an answer|bad" ]
}

@test "nodejudge: a node has a name in each of its networks" {
  run -0 judged x1c0-hsn0.hsn.cm.example.org,x2c0-hsn0.hsn.cm.example.org <<'END'
    x1c0 | memory | ok | 1 of 1
    x2c0.hostmgmt.example.org | memory | ok | 1 of 1
END
  [ "${lines[0]}" = "x1c0-hsn0.hsn.cm.example.org|memory|ok|1 of 1|-|ok" ]
  [ "${#lines[@]}" = 2 ]
}

@test "nodejudge: errors count when they are new" {
  printf 'n1 gpu_ecc 3 900\nn2 gpu_ecc 3 900\nn3 gpu_ecc 5 900\nn4 gpu_ecc 5 900\n' >"$COUNTERS"
  run -0 judged n1,n2,n3,n4,n5,n6,n7 <<'END'
    n1 | gpu_ecc | ok | count=3
    n2 | gpu_ecc | ok | count=7
    n3 | gpu_ecc | ok | count=2
    n4 | gpu_ecc | ok | count=0
    n5 | gpu_ecc | ok | count=1
    n6 | gpu_ecc | ok | count=0
    n7 | gpu_ecc | unknown | errors are not told
END
  [ "$(cut -d'|' -f 1,3,4,6 <<<"$output")" = "n1|ok|3, none new|ok
n2|bad|4 new (7 in all)|bad
n3|bad|2 new since it counts from 0 again|bad
n4|ok|0, none new|ok
n5|unknown|1, and nobody has looked before|pass
n6|ok|0|ok
n7|unknown|errors are not told|pass" ]
  [ "$(paste -sd' ' "$NEW" | tr '\t' ' ')" = "n1 gpu_ecc 3 n2 gpu_ecc 7 n3 gpu_ecc 2 n4 gpu_ecc 0 n5 gpu_ecc 1 n6 gpu_ecc 0" ]
}

@test "nodejudge: without an expectation the odd one is found; what only differs is shown" {
  run -0 judged n1,n2,n3 <<'END'
    n1 | gpu_count | ok | 8
    n2 | gpu_count | ok | 7
    n3 | gpu_count | ok | 8
    n1 | interface | ok | hsn0:up hsn1:up
    n2 | interface | ok | hsn0:up hsn1:up
    n3 | interface | ok | hsn0:up hsn1:down
    n1 | gpu_driver | ok | 580
    n2 | gpu_driver | ok | 580
    n3 | gpu_driver | ok | 570
    n1 | memory | ok | 100 of 503 GiB free
    n2 | memory | ok | 490 of 503 GiB free
    n3 | memory | ok | 250 of 251 GiB free
END
  [[ $output == *"n2|gpu_count|bad|7|8, as the others|bad"* ]]
  [[ $output == *"n3|interface|bad|hsn0:up hsn1:down|2 up, as on the others|bad"* ]]
  [[ $output == *"n3|gpu_driver|ok|570|580, as the others|ok"* ]]
  [[ $output == *"n3|memory|ok|250 of 251 GiB free|503, as the others|ok"* ]]
  [[ $output == *"n1|memory|ok|100 of 503 GiB free|-|ok"* ]]
}

@test "nodejudge: more than the others have is no fault; nobody is odd among three that differ" {
  run -0 judged n1,n2,n3 <<'END'
    n1 | gpu_count | ok | 4
    n2 | gpu_count | ok | 4
    n3 | gpu_count | ok | 8
    n1 | gpu_driver | ok | 1
    n2 | gpu_driver | ok | 2
    n3 | gpu_driver | ok | 3
END
  [ "$(grep -c '|bad$' <<<"$output")" = 0 ]
  [ "$(grep -c 'gpu_driver.*|-|ok$' <<<"$output")" = 3 ]
}

@test "nodejudge: clocks are those of the first node, to some seconds" {
  run -0 judged n1,n2,n3,n4 <<'END'
    n1 | clock | ok | 1000
    n2 | clock | ok | 1007
    n3 | clock | ok | 1030
    n4 | clock | ok | 400
END
  [ "$(cut -d'|' -f 1,3,4 <<<"$output")" = "n1|ok|in step
n2|ok|in step
n3|bad|26 s off
n4|bad|-600 s off" ]
}

@test "nodejudge: unknown follows the site's rule, a check without an answer in its time is bad" {
  OUTLAST_CHECK_RULES='gpu_ecc=bad gpu_xid=hold'
  run -0 judged n1,n2,n3 <<'END'
    n1 | gpu_ecc | unknown | errors are not told
    n1 | gpu_xid | unknown | the log is closed
    n1 | gpu_remap | unknown | it is not told
    n1 | gpu_memory | unknown | no answer within 8 s
    n2 | memory | ok | 1 of 1
    n3 | memory | ok | 1 of 1
END
  [ "$(grep gpu_ <<<"$output" | cut -d'|' -f 2,3,6)" = "gpu_ecc|unknown|bad
gpu_memory|unknown|bad
gpu_remap|unknown|pass
gpu_xid|unknown|hold" ]
  OUTLAST_CHECK_RULES='hangs=pass'
  run -0 judged n1 <<'END'
    n1 | gpu_memory | unknown | no answer within 8 s
END
  [[ $output == *"|pass" ]]
}
