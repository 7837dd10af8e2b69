# shellcheck shell=bash
# lib/nodejudge.sh - whose fault is it: the answers of all nodes, compared with what was seen before and with each other
#
# Functions
#   ol_nodejudge HOSTS COUNTERS NEW   answers (lib/nodecheck.sh) on stdin; print `HOST CHECK ANSWER SEEN EXPECTED RULED`, tabs
#                             between. HOSTS: comma list; COUNTERS: `HOST CHECK COUNT SECONDS` of earlier looks; NEW: a file
#                             for those that are to be kept from now on
#
# ANSWER is ok, bad or unknown. RULED says what follows: ok; pass (unknown, and the site lets it pass: shown and counted); bad
# (the node is to blame); hold (a person must look); site (more than 2 and more than 5 % of the nodes, or all of several: nobody's
# blame; of a node that is alone: what others might have as well).
# Reads    OUTLAST_CHECK_RULES (`CHECK=pass|bad|hold`, blank separated; `hangs` for a check without an answer in its time),
#          OUTLAST_PREFLIGHT_FROM_S OUTLAST_PREFLIGHT_TO_S (between them each node's clock was read)
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_nodejudge() {
  # No word of a command line may be longer than 128 KiB, and 2,600 names of Aurora are.
  awk -F'\t' -v hosts=<(tr , '\n' <<<"$1") -v counters="$2" -v new="$3" -v rules="${OUTLAST_CHECK_RULES:-}" \
    -v from_s="${OUTLAST_PREFLIGHT_FROM_S:-0}" -v to_s="${OUTLAST_PREFLIGHT_TO_S:-0}" "$(_ol_nodejudge_program)"
}

# In awk: ten thousand nodes give their answers within a second.
# shellcheck disable=SC2016 # awk expands it
_ol_nodejudge_program() {
  cat <<'AWK'
    # A name of each of its networks leads to a node: x1921c1s0b0n0-hsn0.hsn.cm.example.org
    function short(name) { sub(/\..*/, "", name); sub(/-hsn[0-9]+$/, "", name); return name }
    function set(h, c, a, s) { answer[h, c] = a; seen[h, c] = s }
    function rule(c,   r) { r = (c in ruled) ? ruled[c] : "pass"; return r }

    BEGIN {
      OFS = "\t"
      known = " answer gpu_count gpu_model gpu_driver gpu_ecc gpu_remap gpu_xid gpu_memory gpu_process gpu_clock interface route local_disk shared_fs memory clock modules "
      checks = split(known, check, " ")
      while ((getline line < hosts) > 0) host[++count] = line
      for (i = 1; i <= count; i++) of_short[short(host[i])] = host[i]
      n = split("hangs=bad " rules, part, " ")
      for (i = 1; i <= n; i++) if (split(part[i], pair, "=") == 2) ruled[pair[1]] = pair[2]
      while ((getline line < counters) > 0) if (split(line, f, " ") >= 3 && f[3] ~ /^[0-9]+$/) last[short(f[1]), f[2]] = f[3]
    }

    # What is no answer of a node of ours is nothing.
    NF != 5 || !(short($1) in of_short) { next }
    $2 == "end" { ended[of_short[short($1)]] = 1; next }
    index(known, " " $2 " ") && $3 ~ /^(ok|bad|unknown)$/ {
      h = of_short[short($1)]
      if ((h, $2) in answer) next
      set(h, $2, $3, $4)
      expected[h, $2] = $5
    }

    function look_at_clock(h,   off) {
      if (!((h, "clock") in answer)) return
      off = 0
      # The clocks of a cluster agree within milliseconds; a few seconds are for what rounds them.
      if (seen[h, "clock"] < from_s - 3) off = seen[h, "clock"] - from_s
      if (seen[h, "clock"] > to_s + 3) off = seen[h, "clock"] - to_s
      if (off) set(h, "clock", "bad", off " s off")
      else set(h, "clock", "ok", "in step")
    }

    # Counters only grow, until a reboot or a new board.
    function look_at_counter(h, c,   now, before) {
      if (!((h, c) in answer) || answer[h, c] != "ok" || seen[h, c] !~ /^count=[0-9]+$/) return
      now = substr(seen[h, c], 7) + 0
      if (new != "") print h, c, now > new
      if (!((short(h), c) in last)) {
        if (now > 0) set(h, c, "unknown", now ", and nobody has looked before")
        else set(h, c, "ok", "0")
        return
      }
      before = last[short(h), c] + 0
      if (now > before) set(h, c, "bad", now - before " new (" now " in all)")
      else if (now < before && now > 0) set(h, c, "bad", now " new since it counts from 0 again")
      else set(h, c, "ok", now ", none new")
    }

    # What has no figure of its own is compared: gpu_count by number, interface by how many are up, the rest by its words.
    function worth(h, c,   words, k, up) {
      if (c == "gpu_count") return seen[h, c] + 0
      if (c == "interface") {
        k = split(seen[h, c], words, " ")
        up = 0
        while (k) if (words[k--] ~ /:up$/) up++
        return up
      }
      return c == "memory" ? gib(seen[h, c]) : seen[h, c]
    }
    function gib(text) { sub(/.* of /, "", text); sub(/ .*/, "", text); return text }

    # None at all is an answer where others in the same step see some.
    function tells(h, c) { return answer[h, c] != "unknown" || (c == "gpu_count" && seen[h, c] ~ /^0 /) }

    function compare(c, blames,   i, v, much, most, all) {
      split("", much)
      most = ""
      all = 0
      for (i = 1; i <= count; i++) {
        if (!((host[i], c) in answer) || !tells(host[i], c)) continue
        all++
        v = worth(host[i], c)
        if (++much[v] > much[most] || (much[v] == much[most] && blames && v + 0 > most + 0)) most = v
      }
      for (i = 1; all > 1 && much[most] * 2 >= all && i <= count; i++) {
        if (!((host[i], c) in answer) || answer[host[i], c] == "bad" || !tells(host[i], c)) continue
        v = worth(host[i], c)
        if (v == most) continue
        if (blames && v + 0 < most + 0) answer[host[i], c] = "bad"
        expected[host[i], c] = c == "interface" ? most " up, as on the others" : most ", as the others"
      }
    }

    function figure(text, unit) { return match(text, "[0-9]+ " unit) ? substr(text, RSTART, RLENGTH) + 0 : 0 }

    # A tenth below the median is not chance: somebody has set a limit, or the board has.
    function speed(h, unit) { return (h, "gpu_clock") in answer && answer[h, "gpu_clock"] == "ok" ? figure(seen[h, "gpu_clock"], unit) : 0 }
    function look_at_speed(unit,   i, v, w, many, all, upto, median) {
      for (i = 1; i <= count; i++) if (v = speed(host[i], unit)) { many[v]++; all++ }
      if (all < 3) return
      median = ""
      for (v in many) {
        upto = 0
        for (w in many) if (w + 0 <= v + 0) upto += many[w]
        if (upto * 2 >= all && (median == "" || v + 0 < median)) median = v + 0
      }
      for (i = 1; i <= count; i++) {
        v = speed(host[i], unit)
        if (!v || v >= 0.9 * median) continue
        answer[host[i], "gpu_clock"] = "bad"
        expected[host[i], "gpu_clock"] = median " " unit ", the median of all"
      }
    }

    # Alone, a node cannot be told from the file system that does not answer it, from the launcher, nor from a site file that
    # is wrong. What is broken whatever a site expects is its own.
    function is_its_own(h, c) {
      if (c == "local_disk" && seen[h, c] ~ /^(read-only|cannot (write|remove)|reads something else)/) return 1
      return c ~ /^gpu_(ecc|remap|xid)$/ || (c !~ /^(shared_fs|modules)$/ && seen[h, c] ~ /^no answer within/)
    }

    END {
      for (i = 1; i <= count; i++) {
        h = host[i]
        if (!(h in ended)) { set(h, "answer", "bad", "no answer"); expected[h, "answer"] = "an answer" }
        look_at_clock(h)
        look_at_counter(h, "gpu_ecc")
        look_at_counter(h, "gpu_xid")
      }
      compare("gpu_count", 1)
      compare("interface", 1)
      compare("gpu_model", 0)
      compare("gpu_driver", 0)
      compare("memory", 0)
      look_at_speed("MHz")
      look_at_speed("W")
      most = count * 0.05 > 2 ? count * 0.05 : 2
      for (k = 1; k <= checks; k++) {
        c = check[k]
        wrong = 0
        others = 0
        for (i = 1; i <= count; i++) {
          h = host[i]
          if (!((h, c) in answer)) continue
          r = answer[h, c]
          if (r == "unknown") r = seen[h, c] ~ /^no answer within/ ? rule("hangs") : rule(c)
          verdict[h, c] = r
          # The first node always reaches itself: of the ways to it only the others tell.
          if (c == "route" && i == 1) continue
          others++
          if (r == "bad") wrong++
        }
        everybody = wrong == (c == "route" ? others : count)
        for (i = 1; i <= count; i++) {
          h = host[i]
          if (!((h, c) in answer)) continue
          if (verdict[h, c] == "bad" && (count > 1 ? wrong > most || everybody : !is_its_own(h, c))) verdict[h, c] = "site"
          print h, c, answer[h, c], seen[h, c], expected[h, c], verdict[h, c]
        }
      }
    }
AWK
}
