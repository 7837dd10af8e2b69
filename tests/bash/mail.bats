#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_MAIL_TO=bob@example.org
  BIN=$BATS_TEST_TMPDIR/bin
  mkdir "$BIN"
}

# A mail command NAME that writes its words and the mail down; CODE is how it ends.
mailer() {
  printf '#!/bin/bash\nprintf "%%s\\n" "$*" >%q\ncat >%q\nexit %d\n' "$BATS_TEST_TMPDIR/words" "$BATS_TEST_TMPDIR/mail" "${2:-0}" >"$BIN/$1"
  chmod +x "$BIN/$1"
}
# With no mail command but those in $BIN. What else is needed keeps its place.
sends() {
  local tool
  for tool in bash timeout cat sed cp rm mkdir sleep date; do ln -sf "$(command -v "$tool")" "$BIN/$tool"; done
  PATH=$BIN status_of ol_mail_send "$@" 2>/dev/null
}
waits_in_outbox() { [ -n "$(find "$OUTLAST_RUN_DIR/outbox" -name 'mail.*')" ]; }

@test "mail: nobody to send to, nothing is sent" {
  OUTLAST_MAIL_TO=''
  mailer sendmail
  sends held 'it is stuck'
  [ ! -e "$BATS_TEST_TMPDIR/mail" ]
  run ! waits_in_outbox
}

@test "mail: sendmail gets a whole mail: to whom, about what, and which job and run" {
  mailer sendmail
  sends held $'it is stuck\nTo go on: outlast resume demo'
  [ "$(cat "$BATS_TEST_TMPDIR/words")" = '-t -oi' ]
  [ "$(head -n 2 "$BATS_TEST_TMPDIR/mail" | paste -sd'|')" = 'To: bob@example.org|Subject: [outlast] demo: held' ]
  grep -q "^To go on: outlast resume demo$" "$BATS_TEST_TMPDIR/mail"
  grep -q "Job 7 on n1, run folder $OUTLAST_RUN_DIR" "$BATS_TEST_TMPDIR/mail"
}

@test "mail: the site's own command comes first, as it is written" {
  mailer sendmail
  mailer relay
  OUTLAST_MAIL_COMMAND='relay --from "out last"'
  sends held 'it is stuck'
  [ "$(cat "$BATS_TEST_TMPDIR/words")" = '--from out last' ]
  grep -q '^Subject: ' "$BATS_TEST_TMPDIR/mail"
}

@test "mail: a subject of several lines is one header" {
  mailer sendmail
  sends $'held\nBcc: eve@example.org' 'x'
  [ "$(sed '/^$/q' "$BATS_TEST_TMPDIR/mail" | grep -c .)" = 3 ]
}

@test "mail: what cannot be sent waits in the outbox, and the job goes on" {
  mailer sendmail 75
  sends held 'it is stuck'
  [ "$status" = 0 ]
  waits_in_outbox
  grep -qr 'it is stuck' "$OUTLAST_RUN_DIR/outbox"
}

@test "mail: a mail command that hangs costs seconds, not the job" {
  printf '#!/bin/bash\nexec sleep 60\n' >"$BIN/sendmail"
  chmod +x "$BIN/sendmail"
  ol_bounded() { timeout 0.2 "${@:2}"; } # the time limit itself has its own tests
  sends held 'it is stuck'
  [ "$status" = 0 ]
  waits_in_outbox
}

@test "mail: neither mailer nor shared file system: only a line in the log" {
  mailer sendmail 75
  mv "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR.gone"
  sends held 'it is stuck'
  [ "$status" = 0 ]
}
