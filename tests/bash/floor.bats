#!/usr/bin/env bats
# Jobs run under Bash 4.4 (SLES 15, RHEL 8): what it lacks. And what makes newer ones lose a signal.
# shellcheck disable=SC2016 # patterns
load helper

# All shell that can end up in a job: lib, the sites' and the templates. Comments are left out.
setup_file() {
  job_code >"$BATS_FILE_TMPDIR/code"
}
job_code() {
  find "$ROOT/lib" "$ROOT/sites" "$ROOT/templates" -name '*.sh' -o -name '*.sh.j2' | sort | while read -r file; do
    sed -E 's/^[[:space:]]*#.*//; s/[[:space:]]#[[:space:]].*//' "$file" | grep -n '' | sed "s|^|${file#"$ROOT"/}:|"
  done
}
# Nobody in it matches the pattern; who does is shown.
nobody() {
  local found
  found=$(grep -E -- "$1" "$BATS_FILE_TMPDIR/code") || return 0
  printf '%s\n' "$found"
  return 1
}

@test "floor: no wait -f (5.0) and no wait -p (5.1)" { nobody '\bwait +-[a-z]*[fp]'; }

@test "floor: no EPOCHSECONDS, EPOCHREALTIME, BASH_ARGV0 (5.0), SRANDOM (5.1)" {
  nobody '\b(EPOCHSECONDS|EPOCHREALTIME|BASH_ARGV0|SRANDOM|BASH_MONOSECONDS)\b'
}

@test "floor: no \${x@U} and its like (5.1); @Q, @E, @P, @A and @a are 4.4's" { nobody '\$\{[^}]*@[UuLKk]\}'; }

@test "floor: no local -n: it shadows the caller's name" { nobody '\b(local|declare|typeset) +-[a-zA-Z]*n'; }

@test "floor: no local -I, no assoc_expand_once, localvar_inherit, patsub_replacement (5.x)" {
  nobody '\blocal +-[a-zA-Z]*I|assoc_expand_once|localvar_inherit|patsub_replacement'
}

@test "floor: no \${ command; } (5.3) and no wait that takes no process" {
  nobody '\$\{ |\$\{\|' && nobody '(:[0-9]+:|;|&&) *wait *($|;)'
}

# bash 5.2: an & in the replacement stands for what was found, unless it is quoted.
@test "floor: a variable that replaces something is quoted" { nobody '\$\{[a-zA-Z_]+(\[[@*]\])?//?[^}]*/\$[a-zA-Z{]'; }

# Before Bash 5.2 it may never end: only where the version has been asked.
@test "floor: read -t stands only where Bash is new enough, or waits for something that comes" {
  local found
  found=$(grep -E '\bread -[a-zA-Z]*t' "$BATS_FILE_TMPDIR/code" | grep -vE '^lib/(bounded|smoke)\.sh:|BASH_VERSINFO') || true
  [ "$found" = "" ] || { echo "$found" && false; }
}

@test "floor: nobody traps CONT: the signal behind it would be lost" { nobody '\btrap\b.*\b(SIG)?CONT\b'; }

# Two $(...) in one command: a signal that comes meanwhile is lost (bash 5.2). Nested ones and other commands of the
# line are safe; text in single quotes is another shell's. Lines that go on are joined first.
@test "floor: no command has two command substitutions" {
  run -0 awk '
    function scan(text, where,   i, c, depth, count, quoted) {
      for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "\\") { i++; continue }
        if (quoted) { if (c == "\x27") quoted = 0; continue }
        if (c == "\x27" && depth == 0) { quoted = 1; continue }
        if (substr(text, i, 3) == "$((") { arith++; i += 2; continue }
        if (arith && substr(text, i, 2) == "))") { arith--; i++; continue }
        if (substr(text, i, 2) == "$(") { if (depth++ == 0) count++; i++; continue }
        if (depth && c == "(") { depth++; continue }
        if (depth && c == ")") { depth--; continue }
        if (depth == 0 && (c == ";" || c == "|" || substr(text, i, 2) == "&&")) count = 0
        if (count > 1) { print where ": " text; return }
      }
    }
    FNR == 1 { joined = "" }
    /^[[:space:]]*#/ { next }
    { joined = joined $0 }
    /\\$/ { sub(/\\$/, " ", joined); next }
    { arith = 0; scan(joined, FILENAME ":" FNR); joined = "" }
  ' "$ROOT"/lib/*.sh "$ROOT"/lib/scheduler/*.sh "$ROOT"/templates/*.j2
  [ "$output" = "" ] || { echo "$output" && false; }
}

@test "floor: the oldest Bash that is here reads every file" {
  local file bash=${OUTLAST_OLD_BASH:-bash}
  for file in "$ROOT"/lib/*.sh "$ROOT"/lib/scheduler/*.sh; do
    "$bash" -n "$file"
  done
}
