# shellcheck shell=bash
# lib/nodecheck.sh - what preflight asks of one node: runs there, reads no file of ours, needs no root and no Python
#
# Functions
#   ol_nodecheck            run all checks at once, print `HOST CHECK ANSWER SEEN EXPECTED`, tabs between, and HOST end
#   ol_nodecheck_names      print the checks that are asked here, a line each
#   ol_nodecheck_say CHECK ANSWER SEEN [EXPECTED]   for a check: its answer. ok, bad or unknown
#   ol_nodecheck_text       print all of it as Bash text for `bash -c`
#
# Each check is a process group of its own. One that does not answer within its limit is killed with its children, and
# not waited for: a process that hangs in a driver cannot be killed.
# Reads    OUTLAST_CHECK_* (lib/preflight.sh), OUTLAST_SYSROOT (what /sys and /proc are read below; tests fake it)
# Needs    nodegpu, nodenet, nodehost
# Sourcing it defines the functions above and does nothing else.

# A check is asked where it has a meaning.
ol_nodecheck_names() {
  local name vendor=''
  vendor=$(ol_nodegpu_vendor)
  for name in gpu_count gpu_model gpu_driver gpu_ecc gpu_remap gpu_xid gpu_memory gpu_process gpu_clock interface route \
    local_disk shared_fs memory clock modules; do
    [[ " ${OUTLAST_CHECK_SKIP:-} " != *" $name "* ]] || continue
    case $name in
      gpu_xid) [[ $vendor == nvidia ]] || continue ;;
      gpu_*) [[ -n $vendor ]] || continue ;;
      interface) ol_nodenet_is_asked || continue ;;
      route) [[ -n ${OUTLAST_CHECK_MASTER:-} ]] || continue ;;
      shared_fs) [[ -n ${OUTLAST_CHECK_SHARED:-} ]] || continue ;;
      modules) [[ -n ${OUTLAST_CHECK_FOLDERS:-} ]] || continue ;;
    esac
    printf '%s\n' "$name"
  done
}

# What a tool says may hold anything; a field holds no tab and no line end, and is short.
ol_nodecheck_say() {
  local seen=${3//[[:cntrl:]]/ } expected=${4:--}
  expected=${expected//[[:cntrl:]]/ }
  printf 'say\t%s\t%s\t%s\t%s\n' "$1" "$2" "${seen:0:200}" "${expected:0:100}"
}

# A check's own words on stdout end here: a line that is none of ol_nodecheck_say's is no answer.
_ol_nodecheck_one() { # CHECK
  local kind=host
  case $1 in
    gpu_*) kind=gpu ;;
    interface | route) kind=net ;;
  esac
  "_ol_node${kind}_check_${1#gpu_}"
  printf 'end\t%s\n' "$1"
}

# -m: each job in the background is a process group. The ticks wake the reader: a `read -t` would do without, but before
# Bash 5.2 one of some thousand never ends.
_ol_nodecheck_children() { # CHECK...
  local name
  set -m
  for name in "$@"; do
    _ol_nodecheck_one "$name" &
    printf 'pid\t%s\t%d\n' "$name" "$!"
  done
  while sleep 0.2; do printf 'tick\n' || break; done &
  printf 'pid\tticks\t%d\n' "$!"
}

ol_nodecheck() {
  local host names=() name pipe word check rest limit_s=${OUTLAST_CHECK_LIMIT_S:-8} said=''
  local -A group_of=() ended=() answered=()
  export OUTLAST_NODECHECK=1 LC_ALL=C # tells our own processes on a device from others; tools speak English
  # A launcher may hand on the HOSTNAME of the first host.
  read -r host </proc/sys/kernel/hostname
  host=${SLURMD_NODENAME:-$host}
  mapfile -t names < <(ol_nodecheck_names)
  SECONDS=0
  exec {pipe}< <(_ol_nodecheck_children "${names[@]}" 2>/dev/null </dev/null)
  while ((${#ended[@]} < ${#names[@]} && SECONDS <= limit_s)) && IFS=$'\t' read -r word check rest <&"$pipe"; do
    case $word in
      pid) group_of[$check]=$rest ;;
      end) ended[$check]=1 ;;
      say)
        [[ $rest =~ ^(ok|bad|unknown)$'\t'[^$'\t']*$'\t'[^$'\t']*$ ]] || continue
        answered[$check]=1
        said+=$host$'\t'$check$'\t'$rest$'\n'
        ;;
    esac
  done
  for name in "${names[@]}" ticks; do
    if [[ $name != ticks && -z ${answered[$name]:-} && -n ${ended[$name]:-} ]]; then
      said+=$host$'\t'$name$'\tunknown\tthe check itself failed\t-\n'
    elif [[ $name != ticks && -z ${answered[$name]:-} ]]; then
      said+=$host$'\t'$name$'\tunknown\tno answer within '$limit_s$' s\t-\n'
    fi
    [[ -n ${ended[$name]:-} || ! ${group_of[$name]:-} =~ ^[0-9]+$ ]] || kill -s KILL -- "-${group_of[$name]}" 2>/dev/null
  done
  # All at once: on their way to the first node the words of several may get between one another.
  printf '%s%s\tend\tok\t%d\t-\n' "$said" "$host" "${#names[@]}"
}

ol_nodecheck_text() {
  local functions
  functions=$(compgen -A function | grep -E '^_?ol_node(check|gpu|net|host)')
  # shellcheck disable=SC2086 # names of functions, as words
  declare -f $functions
  declare -p "${!OUTLAST_CHECK_@}"
  printf 'export OUTLAST_SYSROOT=%q\nol_nodecheck\n' "${OUTLAST_SYSROOT:-}"
}
