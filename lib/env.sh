# shellcheck shell=bash
# lib/env.sh - the environment of a site, in a Bash script of your own:
#
#   source .../lib/env.sh [SITE]     without SITE: $OUTLAST_SITE, or else the site that this host belongs to
#
# SITE is a folder of sites/, or of one of the folders of OUTLAST_SITES (colon separated), which come first.
#
# Sets     the variables of sites/SITE/env.sh and lib/environment.sh; what you have set stays as it is.
#          All is offline, unless OUTLAST_ONLINE=1 and the site has a proxy or needs none.
#          Their functions stay too: `ol_site_modules` loads the site's modules, if you want them.
# Reads    OUTLAST_SITE, OUTLAST_SITES, OUTLAST_ONLINE, MASTER_ADDR, TMPDIR
# Status   2, with one line on stderr and nothing changed: the site is not known, or this was not sourced.
#
# Unlike the other files here it acts. It defines no function of its own, and is never inlined.

if [ -z "${BASH_VERSION:-}" ]; then
  echo 'outlast: lib/env.sh is for bash' >&2
  return 2
fi
if ! (return 0 2>/dev/null); then
  echo "outlast: lib/env.sh sets the variables of the shell that reads it; type: source $0 SITE" >&2
  exit 2
fi

_ol_env_root=$(readlink -f -- "${BASH_SOURCE[0]}")
_ol_env_root=${_ol_env_root%/lib/env.sh}
# Without arguments a sourced file sees those of its caller, so $1 may have nothing to do with us:
# it counts only if it names a site. The folder is found in a child, which leaves no function behind.
# shellcheck disable=SC2218 # defined by the file that the child sources
_ol_env_site=$(
  # shellcheck source=lib/environment.sh
  source "$_ol_env_root/lib/environment.sh"
  sites=${OUTLAST_SITES-}:$_ol_env_root/sites
  ol_environment_folder "$sites" "${1-}" || ol_environment_folder "$sites" "${OUTLAST_SITE-}" || {
    full=$(timeout 10 hostname -f 2>/dev/null) || full=''
    site=$(ol_environment_site "$sites" "${HOSTNAME-}" "$full") && ol_environment_folder "$sites" "$site"
  }
) || _ol_env_site=''
if [[ -z $_ol_env_site ]]; then
  _ol_env_known=("$_ol_env_root"/sites/*/site.toml)
  _ol_env_known=("${_ol_env_known[@]%/site.toml}")
  # What was typed may be a site misspelt, or a word of the caller's that only came along: so both are said.
  _ol_env_word=${1-}
  [[ $_ol_env_word == [A-Za-z0-9_]* && $_ol_env_word != *[!A-Za-z0-9._-]* ]] || _ol_env_word=${OUTLAST_SITE-}
  _ol_env_near=''
  for _ol_env_site in "${_ol_env_known[@]##*/}"; do
    [[ ${#_ol_env_word} -lt 3 || $_ol_env_site != "${_ol_env_word:0:3}"* ]] || _ol_env_near=" (did you mean $_ol_env_site?)"
  done
  printf 'outlast: %sthis host (%s) belongs to no known site; name one: source %s/lib/env.sh SITE (SITE: %s)\n' \
    "${_ol_env_word:+no site $_ol_env_word$_ol_env_near, if a site was meant by it, and }" \
    "${HOSTNAME-}" "$_ol_env_root" "${_ol_env_known[*]##*/}" >&2
  unset _ol_env_root _ol_env_site _ol_env_known _ol_env_word _ol_env_near
  return 2
fi

# shellcheck source=lib/log.sh
source "$_ol_env_root/lib/log.sh"
# shellcheck source=lib/environment.sh
source "$_ol_env_root/lib/environment.sh"
# shellcheck source=sites/frontier/env.sh
source "$_ol_env_site/env.sh"
_ol_env_site+=/site.toml

ol_site_env
ol_environment_gpu "$(ol_environment_fact "$_ol_env_site" gpu_arch)"
_ol_env_proxy=$(ol_environment_fact "$_ol_env_site" proxy) || _ol_env_proxy=''
_ol_env_internet=$(ol_environment_fact "$_ol_env_site" internet) || _ol_env_internet=false
if [[ ${OUTLAST_ONLINE:-0} == 1 && ($_ol_env_proxy || $_ol_env_internet == true) ]]; then
  ol_environment_online "$_ol_env_proxy" "$(ol_environment_fact "$_ol_env_site" no_proxy)"
else
  ol_environment_offline
fi
_ol_env_cores=$(ol_environment_fact "$_ol_env_site" cores_per_node) || _ol_env_cores=0
_ol_env_ranks=$(ol_environment_fact "$_ol_env_site" ranks_per_node)
ol_environment_threads "$((_ol_env_cores / _ol_env_ranks))"
# Libraries run what lies in their caches, so a folder of that name that is somebody else's will not do.
_ol_env_caches=${TMPDIR:-/tmp}/outlast-${USER:-$EUID}
mkdir -m 0700 -- "$_ol_env_caches" 2>/dev/null || [[ -O $_ol_env_caches && ! -L $_ol_env_caches ]] ||
  _ol_env_caches=$(mktemp -d)
ol_environment_caches "$_ol_env_caches"
mapfile -t _ol_env_known < <(ol_environment_fact "$_ol_env_site" net_interfaces)
_ol_env_suffix=''
[[ ${MASTER_ADDR:-} ]] || _ol_env_suffix=$(ol_environment_fact "$_ol_env_site" master_suffix) || _ol_env_suffix=''
_ol_env_master=$(
  OUTLAST_MASTER_SUFFIX=$_ol_env_suffix ol_environment_master "${MASTER_ADDR:-${HOSTNAME-}}" 2>/dev/null
) || _ol_env_master=''
ol_environment_network "$_ol_env_master" ${_ol_env_known[@]+"${_ol_env_known[@]}"} || :
unset _ol_env_root _ol_env_site _ol_env_known _ol_env_proxy _ol_env_internet _ol_env_cores _ol_env_ranks _ol_env_caches \
  _ol_env_master _ol_env_suffix
