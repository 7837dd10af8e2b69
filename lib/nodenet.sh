# shellcheck shell=bash
# lib/nodenet.sh - the checks of lib/nodecheck.sh that look at the network
#
# Functions
#   ol_nodenet_is_asked   is there a fast network to look at, or one that should be there?
#
# Slingshot's interfaces are hsn*, IP over InfiniBand's ib*; InfiniBand's own ports stand under /sys/class/infiniband
# (Linux Documentation/ABI/testing/sysfs-class-net: operstate, carrier; ABI/stable/sysfs-class-infiniband: state).
# Reads    OUTLAST_CHECK_INTERFACES OUTLAST_CHECK_MASTER OUTLAST_CHECK_ALONE OUTLAST_SYSROOT
# Needs    nodecheck
# Sourcing it defines the functions above and does nothing else.

ol_nodenet_is_asked() {
  local there
  [[ -z ${OUTLAST_CHECK_ALONE:-} ]] || return 1
  there=$(_ol_nodenet_there)
  [[ -n ${OUTLAST_CHECK_INTERFACES:-} || -n $there ]]
}

# NAME or DEVICE/PORT of all that is fast here, a line each.
_ol_nodenet_there() {
  local path
  for path in "${OUTLAST_SYSROOT:-}"/sys/class/net/{hsn,ib}[0-9]* "${OUTLAST_SYSROOT:-}"/sys/class/infiniband/*/ports/*; do
    [[ -e $path ]] || continue
    case $path in
      */ports/*) printf '%s\n' "$(basename "${path%/ports/*}")/${path##*/}" ;;
      *) printf '%s\n' "${path##*/}" ;;
    esac
  done
}

# up, or the kernel's word for what it is instead. Some drivers say `unknown` of an interface that works.
_ol_nodenet_state() { # NAME, or DEVICE/PORT, or DEVICE
  local net=${OUTLAST_SYSROOT:-}/sys/class/net/$1 port state='' carrier=0
  if [[ -e $net ]]; then
    read -r state 2>/dev/null <"$net/operstate"
    read -r carrier 2>/dev/null <"$net/carrier"
    [[ $state != unknown || $carrier != 1 ]] || state=up
    printf '%s\n' "${state:-unknown}"
    return
  fi
  for port in "${OUTLAST_SYSROOT:-}/sys/class/infiniband/${1%%/*}/ports/"*; do
    [[ -e $port/state && ($1 != */* || ${1#*/} == "${port##*/}") ]] || continue
    read -r _ state 2>/dev/null <"$port/state"
    [[ $state != ACTIVE ]] || state=up
    printf '%s\n' "${state:-unknown}"
    return
  done
  echo gone
}

# Those that the site names must be up. Of others the first node looks whether this one has fewer than the rest.
_ol_nodenet_check_interface() {
  local name state seen='' answer=ok expected=${OUTLAST_CHECK_INTERFACES:-} names
  mapfile -t names < <(_ol_nodenet_there)
  for name in $expected; do
    [[ " ${names[*]:-} " == *" $name "* ]] || names+=("$name")
  done
  for name in "${names[@]}"; do
    state=$(_ol_nodenet_state "$name")
    seen+="${seen:+ }$name:$state"
    [[ $state == up || " $expected " != *" $name "* ]] || answer=bad
  done
  ol_nodecheck_say interface "$answer" "$seen" "${expected:+$expected up}"
}

# A port on which nobody listens answers at once that it is closed: it is reached.
_ol_nodenet_check_route() {
  local to=$OUTLAST_CHECK_MASTER said
  # shellcheck disable=SC2016 # expanded by the child
  if said=$(timeout -k 1 6 bash -c 'exec 3<>"/dev/tcp/$1/9"' _ "$to" 2>&1) || [[ $said == *"Connection refused"* ]]; then
    ol_nodecheck_say route ok "$to answers" "$to answers"
  else
    said=${said##*: }
    ol_nodecheck_say route bad "${said:-no answer}" "$to answers"
  fi
}
