# shellcheck shell=bash
# lib/mail.sh - tell a person, without ever waiting for it
#
# A message is a file: first on this node (that cannot hang), soon after in RUN/outbox/, carried by the courier, where it
# outlives the job. Python sends what waits there (docs/mail.md); where there is no Python, Bash gives this job's own
# messages to the node's mail command.
#
# Functions
#   ol_mail_send KIND SUBJECT TEXT   write a message, if somebody wants to hear of KIND (OUTLAST_MAIL_ON). Returns at once
#   ol_mail_carry                    bring this job's messages to RUN/outbox/; 1: not all
#   ol_mail_start                    send what waits, in the background
#   ol_mail_finish SEC               the same, and wait for it about SEC seconds
#   ol_mail_rest                     give what the shared file system has not taken to the node's mail command; 1: not all
#
# Files    OUTLAST_STATE/outbox/*.mail   written, not yet carried; carried/ has those that were
#          OUTLAST_STATE/mail_fails      something could not be sent from this node
# Reads    OUTLAST_MAIL_TO OUTLAST_MAIL_HOOKS OUTLAST_MAIL_ON OUTLAST_MAIL_COMMAND OUTLAST_RUN OUTLAST_JOB_ID OUTLAST_RUN_DIR
# Needs    log, bounded, masked, courier, py
# Sourcing it defines the functions above and does nothing else.

_ol_mail_text() { # KIND SUBJECT TEXT
  local subject="[outlast] $OUTLAST_RUN: $2" fingerprint=${OUTLAST_FINGERPRINT:-} to='' text
  ol_masked_text "$3"
  text=$OUTLAST_MASKED
  ol_masked_text "$subject"
  subject=$OUTLAST_MASKED
  subject=${subject//[[:cntrl:]]/ }
  fingerprint=${fingerprint//[[:cntrl:]]/ }
  [[ -z $OUTLAST_MAIL_TO ]] || to="To: $OUTLAST_MAIL_TO"$'\n'
  printf '%sSubject: %s\nX-Outlast-Kind: %s\nX-Outlast-Fingerprint: %s\nX-Outlast-Attempt: %s\nX-Outlast-Hooks: %s\n' \
    "$to" "$subject" "$1" "$fingerprint" "$OUTLAST_JOB_ID.$OUTLAST_RESTART.$OUTLAST_ATTEMPT" "$OUTLAST_MAIL_HOOKS"
  printf 'MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n%s\n\nJob %s on %s, run folder %s\n' \
    "$text" "$OUTLAST_JOB_ID" "${HOSTNAME:-?}" "$OUTLAST_RUN_DIR"
}

ol_mail_send() {
  local name file text
  # shellcheck disable=SC2153 # a name of its own
  [[ -n $OUTLAST_MAIL_TO$OUTLAST_MAIL_HOOKS && " $OUTLAST_MAIL_ON " == *" $1 "* ]] || return 0
  printf -v name '%(%s)T.%s.%05d.mail' -1 "${OUTLAST_JOB_ID//[^A-Za-z0-9._-]/_}" "$RANDOM"
  file=$OUTLAST_STATE/outbox/$name
  text=$(_ol_mail_text "$@")
  if mkdir -p "${file%/*}/carried" && printf '%s\n' "$text" >"$file.new" && mv "$file.new" "$file"; then
    return 0
  fi
  rm -f "$file.new"
  ol_log_warn "no room for a message on this node; it goes straight to $OUTLAST_RUN_DIR/outbox"
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'umask 027; printf "%s\n" "$3" >"$1/.$2" && mv "$1/.$2" "$1/$2"' _ "$OUTLAST_RUN_DIR/outbox" "$name" "$text" ||
    ol_log_warn "nor is there: nobody is told of: $2"
  return 0
}

# What may have been carried before, by a child whose end is not known, is looked for under all names that it can have.
ol_mail_carry() {
  local file
  for file in "$OUTLAST_STATE"/outbox/*.mail; do
    [[ -e $file ]] || continue
    # shellcheck disable=SC2016 # expanded by the child
    ol_shared bash -c 'umask 027; cd "$2" || exit
      for f in "${3%.mail}"*.mail* sent/"$3"; do [[ ! -e $f ]] || exit 0; done
      cp "$1" ".$3" && mv ".$3" "$3"' _ "$file" "$OUTLAST_RUN_DIR/outbox" "${file##*/}" || return 1
    mv "$file" "${file%/*}/carried/"
  done
}

ol_mail_start() {
  (
    trap - TERM USR1 EXIT
    ol_courier_carry 30
    ol_mail_finish 40
  ) &
}

# Where nothing can be sent the job would wait for that at its end, with all of its nodes, so it is noted.
ol_mail_finish() {
  local status=0 limit_s=$(($1 > 20 ? $1 - 10 : 10)) # Python may take ten seconds to come from a busy file system
  _ol_mail_waits || return 0
  ol_py_ask "$1" mail flush "$OUTLAST_RUN_DIR" --limit "$limit_s" || status=$?
  if ((status != 0 && status != 75)); then
    status=0
    _ol_mail_by_bash carried/ || status=75
  fi
  ol_mail_rest || status=75
  if ((status == 0)); then
    rm -f "$OUTLAST_STATE/mail_fails"
  else
    : >"$OUTLAST_STATE/mail_fails"
    ol_log_warn "no mail from this node: what waits in $OUTLAST_RUN_DIR/outbox is sent by the next outlast command on a login node"
  fi
}

# Of this job or of one before it.
_ol_mail_waits() {
  [[ -n $OUTLAST_MAIL_TO$OUTLAST_MAIL_HOOKS ]] || return 1
  # shellcheck disable=SC2016 # expanded by the child
  compgen -G "$OUTLAST_STATE/outbox/*.mail" >/dev/null ||
    ol_shared bash -c 'compgen -G "$1/outbox/*.mail*" >/dev/null' _ "$OUTLAST_RUN_DIR"
}

ol_mail_rest() { _ol_mail_by_bash ''; }

# This job's own messages only, as they are. Status 1: one could not be sent.
_ol_mail_by_bash() { # carried/ or nothing
  local file
  for file in "$OUTLAST_STATE/outbox/$1"*.mail; do
    [[ -e $file ]] || continue
    [[ -n $OUTLAST_MAIL_TO ]] || return 1
    if [[ -n $1 ]]; then
      _ol_mail_claimed "$file" || return 1
    else
      _ol_mail_own "$file" || return 1
    fi
  done
}

# One that the shared file system has not taken: nobody else knows of it, once the courier does not find it any more.
_ol_mail_own() { # FILE
  mv "$1" "$1.sending" || return 0
  if _ol_mail_deliver "$1.sending"; then
    rm -f "$1.sending"
  else
    mv "$1.sending" "$1"
    return 1
  fi
}

# One that a person's command may be about to send: who renames it sends it (pyhelpers/outlast/notice/outbox.py).
_ol_mail_claimed() { # FILE
  local name=${1##*/} claim done_ now_s
  printf -v now_s '%(%s)T' -1
  claim=$name.claimed.$now_s
  done_=sent/$name
  [[ -z $OUTLAST_MAIL_HOOKS ]] || done_=${name%.mail}~mail.mail # the webhooks wait for Python
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cd "$1" && mv "$2" "$3" 2>/dev/null' _ "$OUTLAST_RUN_DIR/outbox" "$name" "$claim" || return 0
  if _ol_mail_deliver "$1"; then
    # shellcheck disable=SC2016 # expanded by the child
    ol_shared bash -c 'cd "$1" && mkdir -p sent && mv "$2" "$3"' _ "$OUTLAST_RUN_DIR/outbox" "$claim" "$done_"
    return 0
  fi
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c 'cd "$1" && mv "$3" "$2"' _ "$OUTLAST_RUN_DIR/outbox" "$name" "$claim"
  return 1
}

# Hand FILE to the site's own command (which reads a whole mail), to sendmail, or to mail. Status 1: none took it.
_ol_mail_deliver() { # FILE
  local -x PATH=$PATH:/usr/sbin:/usr/lib
  # shellcheck disable=SC2016 # expanded by the child
  if [[ -n ${OUTLAST_MAIL_COMMAND:-} ]]; then
    ol_bounded 10 bash -c "$OUTLAST_MAIL_COMMAND"' <"$1"' _ "$1"
  elif command -v sendmail >/dev/null; then
    ol_bounded 10 bash -c 'sendmail -t -oi <"$1"' _ "$1"
  elif command -v mail >/dev/null; then
    ol_bounded 10 bash -c 'sed "1,/^$/d; s/^~/ ~/" "$1" | mail -s "$(sed -n "s/^Subject: //p;/^$/q" "$1")" -- "$2"' _ "$1" "$OUTLAST_MAIL_TO"
  else
    return 1
  fi
}
