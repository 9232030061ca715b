package definition

import (
	"slices"
	"strings"
)

// synonyms are names that other tools have for a field of ours.
var synonyms = map[string]string{
	"schedule": "cron", "tz": "timeZone", "time_zone": "timeZone", "cmd": "command", "script": "command",
	"cwd": "dir", "workdir": "dir", "environment": "env", "description": "title", "tags": "labels",
	"parameters": "params", "retries": "retry", "attempts": "max", "delays": "list", "concurrency": "limit",
}

// nearest gives the name that was probably meant, or "".
func nearest(name string, names []string) string {
	if len(name) > 64 {
		return ""
	}
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return n
		}
	}
	if s := synonyms[strings.ToLower(name)]; slices.Contains(names, s) {
		return s
	}
	best, least := "", 2+len(name)/3
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least && d < len(n) {
			best, least = n, d
		}
	}
	return best
}

// distance is how many letters have to be changed, added, left out, or swapped
// with the next one.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// words joins names as people do: a, b and c.
func words(names []string, last string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	n := len(names) - 1
	return strings.Join(names[:n], ", ") + " " + last + " " + names[n]
}
