package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time that is written with units: 300ms, 10s, 1h30m, 7d.
type Duration time.Duration

const durationMend = "write a number and a unit: 300ms, 10s, 5m, 1h, 7d"

var durationUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

func (d *Duration) parse(text string) error {
	v, err := parseDuration(text)
	*d = Duration(v)
	return err
}

func (d *Duration) text() string { return durationText(time.Duration(*d)) }

// String returns the span as it is written in a file.
func (d Duration) String() string { return d.text() }

func parseDuration(text string) (time.Duration, error) {
	rest := strings.TrimSpace(text)
	switch {
	case rest == "0":
		return 0, nil
	case strings.HasPrefix(rest, "-"):
		return 0, wrong(fmt.Sprintf("%q is negative", text), durationMend)
	case rest == "":
		return 0, wrong("a duration is missing", durationMend)
	}
	var sum float64
	for rest != "" {
		part, tail, err := durationPart(text, rest)
		if err != nil {
			return 0, err
		}
		sum += part
		rest = strings.TrimLeft(tail, " ")
	}
	if sum >= math.MaxInt64 {
		return 0, wrong(fmt.Sprintf("%q is too long", text), "the longest duration is about 292 years")
	}
	return time.Duration(math.Round(sum)), nil
}

// durationPart reads one number and its unit from the front of rest, in nanoseconds.
func durationPart(text, rest string) (part float64, tail string, err error) {
	digits := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if digits < 0 {
		return 0, "", wrong(fmt.Sprintf("%q has no unit", text), "write "+text+"s for seconds; "+durationMend)
	}
	n, numErr := strconv.ParseFloat(rest[:digits], 64)
	after := strings.TrimLeft(rest[digits:], " ")
	end := strings.IndexFunc(after, func(r rune) bool { return r == ' ' || r >= '0' && r <= '9' })
	if end < 0 {
		end = len(after)
	}
	unit, known := durationUnits[after[:end]]
	if numErr != nil || !known {
		return 0, "", wrong(fmt.Sprintf("%q is not a duration", text), durationMend)
	}
	return n * float64(unit), after[end:], nil
}

// durationText drops the zero parts that time.Duration.String keeps: "1h" and not "1h0m0s".
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// StatusTTL is the lifetime of answers with one status; negative means that they are not stored.
type StatusTTL time.Duration

// neverStored is written as the word never.
const neverStored = StatusTTL(-1)

func (s *StatusTTL) parse(text string) error {
	if text == "never" {
		*s = neverStored
		return nil
	}
	d, err := parseDuration(text)
	if m, ok := err.(*mistake); ok {
		return wrong(m.what, m.mend+", or never to store no such answer")
	}
	*s = StatusTTL(d)
	return nil
}

func (s *StatusTTL) text() string {
	if *s < 0 {
		return "never"
	}
	return durationText(time.Duration(*s))
}
