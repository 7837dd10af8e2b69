#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2317 # text for a shell of its own; a test is a subshell; stand-ins are called elsewhere
load job

setup() {
  a_job
  OUTLAST_MAIL_TO=bob@example.org
  BIN=$BATS_TEST_TMPDIR/bin OUTBOX=$OUTLAST_RUN_DIR/outbox
  mkdir "$BIN"
  PYTHON_SAYS=127 # it is not there
  ol_py_ask() {
    printf '%s\n' "$*" >>"$BATS_TEST_TMPDIR/asked"
    return "$PYTHON_SAYS"
  }
}

# A mail command NAME that writes its words and the mail down; CODE is how it ends.
mailer() {
  printf '#!/bin/bash\nprintf "%%s\\n" "$*" >%q\ncat >>%q\nexit %d\n' "$BATS_TEST_TMPDIR/words" "$BATS_TEST_TMPDIR/mail" "${2:-0}" >"$BIN/$1"
  chmod +x "$BIN/$1"
}
# With no mail command but those in $BIN. What else is needed keeps its place.
alone() {
  local tool
  for tool in bash timeout cat sed cp mv rm mkdir sleep date; do ln -sf "$(command -v "$tool")" "$BIN/$tool"; done
  PATH=$BIN status_of "$@" 2>/dev/null
}
# A message, carried and sent.
sends() {
  status_of ol_mail_send "$@"
  alone ol_mail_carry
  alone ol_mail_finish 30
}
files() { find "$1" -type f -name '*.mail*' -printf '%P\n' 2>/dev/null | LC_ALL=C sort; }
mail() { cat "$BATS_TEST_TMPDIR/mail" 2>/dev/null; }

@test "mail: nobody to send to, nothing is written" {
  OUTLAST_MAIL_TO=''
  mailer sendmail
  sends held held 'it is stuck'
  [ -z "$(files "$OUTBOX")$(mail)" ]
}

@test "mail: what nobody wants to hear of is not written" {
  OUTLAST_MAIL_ON='finished held'
  ol_mail_send rapid_crash 'rapid crash' x
  ol_mail_send hel held x
  [ -z "$(files "$OUTLAST_STATE/outbox")" ]
  ol_mail_send held held x
  [ -n "$(files "$OUTLAST_STATE/outbox")" ]
}

@test "mail: no secret in a message, by whoever it goes" {
  mailer sendmail
  sends held 'held: api_key=hunter2' 'see https://ada:hunter2@mirror'
  [[ $(mail) == *'Subject: [outlast] demo: held: api_key=***'*'see https://ada:***@mirror'* ]]
  run -1 grep -r hunter2 "$OUTLAST_STATE" "$OUTBOX"
}

@test "mail: a message is written on the node, at once, and the courier carries it" {
  ol_shared() { echo "touched the shared file system" >>"$BATS_TEST_TMPDIR/asked"; }
  ol_mail_send held held 'it is stuck'
  [ ! -e "$BATS_TEST_TMPDIR/asked" ]
  unset -f ol_shared
  source "$ROOT/lib/bounded.sh"
  declare -A OL_COURIER_SENT=()
  ol_courier_round
  [[ $(files "$OUTBOX") =~ ^[0-9]{10}\.7\.[0-9]{5}\.mail$ ]]
  grep -qx 'it is stuck' "$OUTBOX"/*.mail
  [ "$(files "$OUTLAST_STATE/outbox")" = "carried/$(files "$OUTBOX")" ]
}

@test "mail: a message is a whole mail: to whom, about what, of which attempt, job and run" {
  OUTLAST_ATTEMPT=2 OUTLAST_FINGERPRINT=code/KeyError OUTLAST_MAIL_HOOKS='team other'
  ol_mail_send rapid_crash 'rapid crash' $'it is stuck\nTo go on: outlast resume demo'
  run -0 cat "$OUTLAST_STATE"/outbox/*.mail
  [ "${lines[0]}|${lines[1]}" = 'To: bob@example.org|Subject: [outlast] demo: rapid crash' ]
  [[ $output == *$'\nX-Outlast-Kind: rapid_crash\nX-Outlast-Fingerprint: code/KeyError\nX-Outlast-Attempt: 7.0.2\nX-Outlast-Hooks: team other\n'* ]]
  [[ $output == *$'\n\nit is stuck\nTo go on: outlast resume demo\n\nJob 7 on n1, run folder '"$OUTLAST_RUN_DIR" ]]
}

@test "mail: a subject or a fingerprint of several lines is one header" {
  OUTLAST_FINGERPRINT=$'a\r\nBcc: eve@example.org'
  ol_mail_send held $'held\nBcc: eve@example.org' $'x\n\ny'
  [ "$(sed '/^$/q' "$OUTLAST_STATE"/outbox/*.mail | grep -c .)" = 9 ]
  run ! grep -q '^Bcc' "$OUTLAST_STATE"/outbox/*.mail
}

@test "mail: what was sent meanwhile, or is being sent, is not carried again" {
  ol_mail_send held held 'it is stuck'
  name=$(files "$OUTLAST_STATE/outbox")
  mkdir "$OUTBOX/sent"
  for there in "$name.claimed.1700000000" "${name%.mail}~mail.mail" "sent/$name"; do
    mv "$OUTLAST_STATE/outbox/carried/$name" "$OUTLAST_STATE/outbox/" 2>/dev/null || true
    touch "$OUTBOX/$there"
    ol_mail_carry
    [ "$(files "$OUTBOX")" = "$there" ]
    [ -e "$OUTLAST_STATE/outbox/carried/$name" ]
    rm "$OUTBOX/$there"
  done
}

@test "mail: no room on the node: it goes straight to the run's folder" {
  rm -rf "$OUTLAST_STATE/outbox"
  : >"$OUTLAST_STATE/outbox" # no folder can be made there
  status_of ol_mail_send held held 'it is stuck' 2>/dev/null
  [ "$status" = 0 ]
  grep -qx 'it is stuck' "$OUTBOX"/*.mail
}

@test "mail: neither node nor shared file system: only a line in the log" {
  rm -rf "$OUTLAST_STATE/outbox" "$OUTBOX"
  : >"$OUTLAST_STATE/outbox"
  run -0 ol_mail_send held held 'it is stuck'
  [[ $output == *"nobody is told of: held"* ]]
}

@test "mail: Python sends what waits, also of the job before; its word is taken" {
  touch "$OUTBOX/1700000000.6.1.mail"
  mailer sendmail
  PYTHON_SAYS=0
  alone ol_mail_finish 30
  [ "$(cat "$BATS_TEST_TMPDIR/asked")" = "30 mail flush $OUTLAST_RUN_DIR --limit 20" ]
  [ ! -e "$OUTLAST_STATE/mail_fails" ]
  PYTHON_SAYS=75
  alone ol_mail_finish 30
  [ -e "$OUTLAST_STATE/mail_fails" ]
  [ -z "$(mail)" ]
}

@test "mail: nothing waits, nothing is started" {
  alone ol_mail_finish 30
  [ ! -e "$BATS_TEST_TMPDIR/asked" ]
}

@test "mail: without Python sendmail gets the mail as it is, once" {
  mailer sendmail
  sends held held $'it is stuck\nTo go on: outlast resume demo'
  [ "$(cat "$BATS_TEST_TMPDIR/words")" = '-t -oi' ]
  [ "$(mail | head -n 2 | paste -sd'|')" = 'To: bob@example.org|Subject: [outlast] demo: held' ]
  [[ $(files "$OUTBOX") == sent/* ]]
  alone ol_mail_finish 30
  [ "$(mail | grep -c '^To:')" = 1 ]
}

@test "mail: without Python what a person's command has taken is left to it" {
  mailer sendmail
  ol_mail_send held held 'it is stuck'
  ol_mail_carry
  name=$(files "$OUTBOX")
  mv "$OUTBOX/$name" "$OUTBOX/$name.claimed.1700000000"
  alone ol_mail_finish 30
  [ -z "$(mail)" ]
}

@test "mail: without Python a message that the shared file system has not taken is sent all the same" {
  mailer sendmail
  ol_mail_send storage storage x
  mv "$OUTBOX" "$OUTBOX.gone"
  sends held held 'the quota is used up'
  mail | grep -qx 'the quota is used up'
  [ -z "$(files "$OUTLAST_STATE/outbox")" ]
}

@test "mail: nor is it lost where Python finds nothing to send" {
  mailer sendmail
  mv "$OUTBOX" "$OUTBOX.gone"
  PYTHON_SAYS=0
  sends held held 'the quota is used up'
  mail | grep -qx 'the quota is used up'
}

@test "mail: without Python the webhooks wait for it" {
  OUTLAST_MAIL_HOOKS=team
  mailer sendmail
  sends held held 'it is stuck'
  [[ $(files "$OUTBOX") == *~mail.mail ]]
}

@test "mail: the site's own command comes first, as it is written" {
  mailer sendmail
  mailer relay
  OUTLAST_MAIL_COMMAND='relay --from "out last"'
  sends held held 'it is stuck'
  [ "$(cat "$BATS_TEST_TMPDIR/words")" = '--from out last' ]
  mail | grep -q '^Subject: '
}

@test "mail: mail gets subject, address and the text, in which nothing is a command" {
  mailer mail
  sends held held $'it is stuck\n~!reboot'
  [ "$(cat "$BATS_TEST_TMPDIR/words")" = '-s [outlast] demo: held -- bob@example.org' ]
  [ "$(mail | head -n 2 | paste -sd'|')" = 'it is stuck| ~!reboot' ]
}

@test "mail: what cannot be sent waits in the outbox, and the job goes on" {
  mailer sendmail 75
  sends held held 'it is stuck'
  [ "$status" = 0 ]
  [[ $(files "$OUTBOX") =~ ^[0-9.]+\.mail$ ]]
  [ -e "$OUTLAST_STATE/mail_fails" ]
}

@test "mail: a mail command that hangs costs seconds, not the job" {
  printf '#!/bin/bash\nexec sleep 60\n' >"$BIN/sendmail"
  chmod +x "$BIN/sendmail"
  ol_mail_send held held 'it is stuck'
  ol_mail_carry
  ol_bounded() { timeout 0.2 "${@:2}"; } # the time limit itself has its own tests
  ol_shared() { "$@"; }
  alone ol_mail_finish 30
  [ "$status" = 0 ]
  [[ $(files "$OUTBOX") =~ ^[0-9.]+\.mail$ ]]
}

@test "mail: nobody waits while the job goes on, and the courier carries first" {
  ol_courier_carry() {
    until [[ -e $BATS_TEST_TMPDIR/go ]]; do ol_bounded_nap 0.05; done
    ol_mail_carry
  }
  PYTHON_SAYS=0
  ol_mail_send held held 'it is stuck'
  ol_mail_start
  ends_with_the_test "$!"
  [ ! -e "$BATS_TEST_TMPDIR/asked" ]
  touch "$BATS_TEST_TMPDIR/go"
  wait "$!"
  [ "$(cat "$BATS_TEST_TMPDIR/asked")" = "40 mail flush $OUTLAST_RUN_DIR --limit 30" ]
}
