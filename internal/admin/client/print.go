package client

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/swrproxy/swrproxy/internal/admin"
)

// WritePurge writes what a purge did, for people.
func WritePurge(w io.Writer, a *admin.PurgeAnswer) {
	done := "purged"
	switch {
	case a.DryRun:
		done = "would be reached"
	case a.Soft:
		done = "made stale"
	}
	if a.Pending {
		fmt.Fprintln(w, "in force; what it reaches is not counted yet")
		return
	}
	fmt.Fprintf(w, "%s %s%s\n", count(a.Records, "record"), done, tierCounts(a.Tiers))
	for _, key := range a.Keys {
		fmt.Fprintf(w, "  %s\n", plain(key))
	}
	if more := a.Records - len(a.Keys); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	if a.Refreshing > 0 {
		fmt.Fprintf(w, "%s being fetched afresh\n", count(a.Refreshing, "URL"))
	}
	if a.Skipped > 0 {
		fmt.Fprintf(w, "%s left to the next reader: too many wait\n", count(a.Skipped, "URL"))
	}
}

// plain keeps what an origin or a client chose from steering a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func tierCounts(tiers map[string]int) string {
	if len(tiers) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, tiers[name]))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// useWords say what a reader would get.
var useWords = map[string]string{
	"fresh":                  "served from the cache",
	"stale-while-revalidate": "served stale at once, refreshed behind",
	"must-wait":              "waits for the origin",
	"bypass":                 "goes to the origin, not cached",
}

// WriteRecord writes what the cache would do with a request, for people, as it is at now.
func WriteRecord(w io.Writer, a *admin.RecordAnswer, now time.Time) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s%s\n", name, plain(fmt.Sprintf(format, args...)))
	}
	line("url", "%s", a.URL)
	line("rule", "%s", a.Rule)
	line("key", "%s", a.Key)
	line("reader", "%s", useWords[a.Use])
	line("because", "%s", whyText(a.Why))
	if r := a.Record; r != nil {
		writeStored(line, r, now)
	} else {
		line("stored", "no")
	}
	if n := a.NotStored; n != nil {
		line("not stored", "the origin's answer of %s, status %d: %s", at(n.At, now), n.Status, whyText(n.Why))
	}
	writeFill(line, a, now)
}

func writeStored(line func(name, format string, args ...any), r *admin.RecordDetail, now time.Time) {
	line("stored", "status %d, %d bytes, at %s by fill %d", r.Status, r.Bytes, at(r.StoredAt, now), r.Number)
	line("age", "%s", time.Duration(r.AgeSeconds*float64(time.Second)).Round(time.Second))
	line("fresh until", "%s", at(r.FreshUntil, now))
	line("stale until", "%s", window(r.StaleUntil, now, "no window: stale is not served while it is refreshed"))
	line("on errors", "%s", window(r.ErrorUntil, now, "no window: stale is not served when the origin fails"))
	if r.Variants > 0 {
		line("variants", "%d, by %s", r.Variants, strings.Join(r.Vary, ", "))
	}
	if len(r.Tags) > 0 {
		line("tags", "%s", strings.Join(r.Tags, " "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		line("field", "%s: %s", name, strings.Join(r.Fields[name], ", "))
	}
}

func writeFill(line func(name, format string, args ...any), a *admin.RecordAnswer, now time.Time) {
	switch f := a.Fill; {
	case f == nil:
		line("filled by", "nobody now")
	case f.Background:
		line("filled by", "a background refresh, number %d, since %s; %s", f.Number, at(f.Since, now), count(f.Readers, "reader"))
	default:
		line("filled by", "a reader's fetch, number %d, since %s; %s", f.Number, at(f.Since, now), count(f.Readers, "reader"))
	}
	if a.RetryAt != nil {
		line("paused", "the origin failed; no attempt until %s", at(*a.RetryAt, now))
	}
	if a.DirectUntil != nil {
		line("direct", "answers are not shared: each reader asks the origin until %s", at(*a.DirectUntil, now))
	}
}

func whyText(y admin.Why) string { return fmt.Sprintf("%s [%s]", y.Reason, y.Section) }

// at writes an instant and how far from now it is.
func at(t, now time.Time) string {
	d := t.Sub(now).Round(time.Second)
	stamp := t.UTC().Format(time.RFC3339)
	switch {
	case d == 0:
		return stamp + " (now)"
	case d < 0:
		return fmt.Sprintf("%s (%s ago)", stamp, -d)
	default:
		return fmt.Sprintf("%s (in %s)", stamp, d)
	}
}

func window(t *time.Time, now time.Time, none string) string {
	if t == nil {
		return none
	}
	return at(*t, now)
}

// WriteRefresh writes what came of a forced fetch, for people.
func WriteRefresh(w io.Writer, a *admin.RefreshAnswer, now time.Time) {
	fmt.Fprintf(w, "%s after %s\n", a.Outcome, time.Duration(a.TookMS)*time.Millisecond)
	WriteRecord(w, &a.Now, now)
}

// WriteStats writes the figures, for people.
func WriteStats(w io.Writer, a *admin.StatsAnswer) {
	fmt.Fprintf(w, "fills %d, waiting readers %d, refills to come %d, invalidations %d\n", a.Fills, a.Waiting, a.Refills, a.Invalidations)
	for _, name := range slices.Sorted(maps.Keys(a.Tiers)) {
		t := a.Tiers[name]
		fmt.Fprintf(w, "%s: %d records, %d of %d bytes; evicted %d, rejected %d, expired %d, purged %d, damaged %d\n",
			name, t.Records, t.Bytes, t.MaxBytes, t.Evicted, t.Rejected, t.Expired, t.Purged, t.Damaged)
	}
}
