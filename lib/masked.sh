# shellcheck shell=bash
# lib/masked.sh - secrets out of text that people will read or send on: what pyhelpers/outlast/masked.py does, without Python
#
# Functions
#   ol_masked_text TEXT    put the text with *** in place of each secret into OUTLAST_MASKED
#
# The forms are those of masked.py, which says where they come from; one table tests both (tests/py/test_masked.py).
# Sets     OUTLAST_MASKED
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

# What a name calls a secret is none if it only counts or names something.
_ol_masked_is_secret() { # KIND VALUE_AND_WHAT_FOLLOWS LENGTH_OF_VALUE
  local value=${2:0:$3}
  case $1 in
    key) [[ $2 =~ ^[^[:space:]]{8} ]] ;; # long enough
    token) [[ $value == *[0-9]* && $value == *[[:alpha:]]* ]] ;;
  esac
}

# In OUTLAST_MASKED, hide what matches behind group 1, and leave a last @. KIND: exact heeds capitals; key and token do not
# hide everything.
_ol_masked_form() { # KIND REGEX
  local kind=$1 form=$2 rest=$OUTLAST_MASKED out='' low match kept at tail=0
  [[ $form != *@ ]] || tail=1
  while :; do
    low=$rest
    [[ $kind == exact || $kind == key ]] || low=${rest,,}
    [[ $low =~ $form ]] || break
    match=${BASH_REMATCH[0]} kept=${BASH_REMATCH[1]}
    low=${low%%"$match"*}
    at=$((${#low} + ${#kept}))
    out+=${rest:0:at}
    rest=${rest:at}
    _ol_masked_is_secret "$kind" "$rest" "$((${#match} - ${#kept}))" || continue
    out+='***'
    rest=${rest:${#match}-${#kept}-tail}
  done
  OUTLAST_MASKED=$out$rest
}

# From the first line of a private key to its last, or to the end of a text that is cut.
_ol_masked_pem() {
  local rest=$OUTLAST_MASKED out='' line='-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----' match
  while [[ $rest =~ ${line/(BEGIN|END)/BEGIN} ]]; do
    match=${BASH_REMATCH[0]}
    out+=${rest%%"$match"*}$match'***'
    rest=${rest#*"$match"}
    if [[ $rest =~ ${line/(BEGIN|END)/END} ]]; then
      match=${BASH_REMATCH[0]}
      out+=$match
      rest=${rest#*"$match"}
    else
      rest=''
    fi
  done
  OUTLAST_MASKED=$out$rest
}

ol_masked_text() { # TEXT
  local LC_ALL=C edge='(^|[^[:alnum:]_])' is="['\"]?[[:space:]]*[:=][[:space:]]*"
  local value="(\"[^\"]*\"|'[^']*'|[^[:space:]'\"&,;}]+)" run='[[:alnum:]_.~+/=-]'
  local secret='(pass(word|wd|phrase)|secret|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|auth[_-]?key|signature)'
  OUTLAST_MASKED=$1
  _ol_masked_pem
  _ol_masked_form any "(${edge}[a-z][a-z0-9+.-]*://[^[:space:]:/@]*:)[^[:space:]/@]+@"
  _ol_masked_form any "(${edge}https?://)[a-z0-9_-]{16,}@"
  _ol_masked_form any "(${edge}(authorization${is}['\"]?[[:space:]]*)?(bearer|basic)[[:space:]]+)${run}{8,}"
  _ol_masked_form any "(${edge}https?://(hooks\.slack\.com/|([[:alnum:]_-]+\.)?discord(app)?\.com/api/webhooks/|[[:alnum:]_.-]+\.webhook\.office\.com/))[^[:space:]'\"<>]+"
  _ol_masked_form any "(${edge}wandb[[:space:]]+login[[:space:]]+((-|https?://)[^[:space:]]+[[:space:]]+)*)[[:alnum:]_-]{20,}"
  _ol_masked_form any "(${edge}[[:alnum:]_.-]*${secret}[[:alnum:]_]*${is}|--[[:alnum:]_-]*${secret}[[:alnum:]_-]*[ =])$value"
  _ol_masked_form key "(${edge}[A-Z0-9_]+_(KEY|PASS)=)$value"
  _ol_masked_form token "(${edge}[[:alnum:]_.-]*token['\"]?([[:space:]]*[:=][[:space:]]*|[[:space:]]+)['\"]?)${run}{12,}"
  _ol_masked_form exact "${edge}(gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[[:alnum:]_]{20,}|glpat-[[:alnum:]_-]{20,}|hf_[A-Za-z0-9]{20,}|sk-[[:alnum:]_-]{20,}|xox[abeoprs]-[[:alnum:]_-]{10,}|(AKIA|ASIA)[A-Z0-9]{16}|AIza[[:alnum:]_-]{35}|npm_[A-Za-z0-9]{30,}|pypi-[[:alnum:]_-]{30,}|local-[0-9a-f]{40}|eyJ[[:alnum:]_-]{8,}\.[[:alnum:]_-]{8,}\.[[:alnum:]_-]*)"
}
