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

# Hand FILE to the site's own command (which reads a whole mail), to sendmail, or to mail. Status 1: none took it.
_ol_mail_deliver() { # FILE SUBJECT
  local -x PATH=$PATH:/usr/sbin:/usr/lib
  # shellcheck disable=SC2016 # expanded by the child
  if [[ -n ${OUTLAST_MAIL_COMMAND:-} ]]; then
    ol_bounded 10 bash -c "$OUTLAST_MAIL_COMMAND"' <"$1"' _ "$1"
  elif command -v sendmail >/dev/null; then
    ol_bounded 10 bash -c 'sendmail -t -oi <"$1"' _ "$1"
  elif command -v mail >/dev/null; then
    ol_bounded 10 bash -c 'sed "1,/^$/d" "$1" | mail -s "$2" -- "$3"' _ \
      "$1" "[outlast] $OUTLAST_RUN: $2" "$OUTLAST_MAIL_TO"
  else
    return 1
  fi
}

ol_mail_send() {
  local file
  [[ -n ${OUTLAST_MAIL_TO:-} ]] || return 0
  printf -v file '%s/mail.%(%s)T.%d' "$OUTLAST_STATE" -1 "$RANDOM"
  _ol_mail_text "$@" >"$file"
  if _ol_mail_deliver "$file" "$1"; then
    return 0
  fi
  ol_log_warn "no mail from this node: the message waits in $OUTLAST_RUN_DIR/outbox"
  ol_shared cp "$file" "$OUTLAST_RUN_DIR/outbox/" || return 0
}
