#!/usr/bin/env bats
load job

@test "bounded: passes the command's status on, and gives it no stdin" {
  run -7 ol_bounded 5 bash -c 'exit 7'
  run -0 ol_bounded 5 cat <<<"kept"
  [ "$output" = "" ]
}

@test "bounded: 124 when the time is up" {
  run -124 ol_bounded 1 sleep 60
}

@test "bounded: 124 also when the command had to be killed, as no command can choose that status" {
  run -124 ol_bounded 1 bash -c 'trap "" TERM; while :; do sleep 0.1; done'
}

@test "bounded: leaves behind what cannot even be killed, as a process that waits for a frozen file system" {
  # It waits for its child, longer than anybody looks.
  timeout() {
    printf '%d\n' "$BASHPID" >"$BATS_TEST_TMPDIR/pid"
    exec sleep 600 >/dev/null 2>&1 3>&-
  }
  run -124 ol_bounded 1 true
  kill "$(<"$BATS_TEST_TMPDIR/pid")"
}

@test "bounded: comes back although the command's children keep its output open" {
  run -124 ol_bounded_print 4 bash -c 'echo begun; sleep 20 & sleep 60'
  [ "$output" = begun ]
}

@test "bounded: a command that is not there is 127" {
  run -127 ol_bounded 1 no-such-command
}

@test "bounded_print: prints what the command printed, blanks and line ends as they are" {
  run -3 --keep-empty-lines ol_bounded_print 5 bash -c 'printf " a  b\n\n"; exit 3'
  [ "$output" = $' a  b\n\n' ]
}

@test "bounded_print: leaves no file behind" {
  ol_bounded_print 5 echo x
  [ -z "$(find "$OUTLAST_STATE" -name "print*")" ]
}

@test "bounded_print: no place for the answer is no answer, not the command's status" {
  OUTLAST_STATE=$BATS_TEST_TMPDIR/missing
  run -124 ol_bounded_print 5 false
}

@test "bounded_open: an old Bash gets no pipe to nap on, its read -t may never end" {
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 502)) || skip "this Bash is new enough"
  ol_bounded_open
  [ -z "${OL_NAP_FD:-}" ]
}

@test "bounded_nap: waits with and without a pipe, and never fails" {
  run -0 ol_bounded_nap 0.01
  ol_bounded_open
  run -0 ol_bounded_nap 0.01
}

@test "shared: has the limit of OUTLAST_SHARED_LIMIT_S" {
  OUTLAST_SHARED_LIMIT_S=1 run -124 ol_shared sleep 60
  OUTLAST_SHARED_LIMIT_S=60 run -0 ol_shared_print echo answer
  [ "$output" = answer ]
}
