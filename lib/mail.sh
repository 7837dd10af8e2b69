# shellcheck shell=bash
# lib/mail.sh - tell a person, without ever waiting for it
#
# Functions
#   ol_mail_send SUBJECT TEXT   send to OUTLAST_MAIL_TO; what cannot be sent from here stays in RUN/outbox/
#
# Reads    OUTLAST_MAIL_TO OUTLAST_RUN OUTLAST_JOB_ID OUTLAST_RUN_DIR
# Needs    log, bounded
# Sourcing it defines the functions above and does nothing else.

_ol_mail_text() { # SUBJECT TEXT
  local subject="[outlast] $OUTLAST_RUN: $1"
  subject=${subject//[[:cntrl:]]/ }
  printf 'To: %s\nSubject: %s\nContent-Type: text/plain; charset=utf-8\n\n%s\n\nJob %s on %s, run folder %s\n' \
    "$OUTLAST_MAIL_TO" "$subject" "$2" "$OUTLAST_JOB_ID" "${HOSTNAME:-?}" "$OUTLAST_RUN_DIR"
}

_ol_mail_command() {
  local command
  for command in "$(command -v sendmail)" /usr/sbin/sendmail /usr/lib/sendmail; do
    [[ ! -x $command ]] || {
      printf '%s\n' "$command"
      return 0
    }
  done
  return 1
}

ol_mail_send() {
  local file command
  [[ -n ${OUTLAST_MAIL_TO:-} ]] || return 0
  printf -v file '%s/mail.%(%s)T.%d' "$OUTLAST_STATE" -1 "$RANDOM"
  _ol_mail_text "$@" >"$file"
  if command=$(_ol_mail_command) && ol_bounded 10 "$command" -t -oi <"$file"; then
    return 0
  fi
  ol_log_warn "no mail from this node: the message waits in $OUTLAST_RUN_DIR/outbox"
  ol_shared cp "$file" "$OUTLAST_RUN_DIR/outbox/" || return 0
}
