package archtest

import (
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// DatedTests are the test files that may hold literal dates, each with the reason why none of them meets the real clock.
var DatedTests = map[string]string{
	"integration/archtest/dates_test.go":   "its dates are what the search is tried on",
	"internal/admin/api_test.go":           "a record's times become text; nobody compares them with a clock",
	"internal/admin/client/client_test.go": "the client's text is written for a fixed noon",
	"policy/condition_test.go":             "policy takes the time of each verdict: t0",
	"policy/date_test.go":                  "dates are parsed, no more",
	"policy/freshness_test.go":             "policy takes the time of each verdict: t0",
	"policy/fuzz_test.go":                  "policy takes the time of each verdict: t0",
	"policy/header_test.go":                "defines t0, the fixed time of policy's tests",
	"policy/imfdate_test.go":               "dates are parsed, no more",
}

// A dated literal makes a test pass or fail by the day on which it runs.
var dated = []*regexp.Regexp{
	// The three forms of an HTTP-date, valid or nearly so, of any year.
	regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +\d{1,2}[ -](Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ -]\d{2,4} +\d{1,2}:\d\d`),
	regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) +(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} \d{1,2}:\d\d:\d\d +\d{4}`),
	// A year from 2025 on, but not 2048 and 2049, which are sizes.
	regexp.MustCompile(`\b20(2[5-9]|3\d|4[0-7]|[5-9]\d)\b`),
	// Such a year in seconds since 1970, up to 2036.
	regexp.MustCompile(`\b(1_?(73[6-9]|7[4-9]\d|[89]\d\d)|2_?0\d\d)_?\d{3}_?\d{3}\b`),
	// A certificate expires.
	regexp.MustCompile(`BEGIN (TRUSTED )?CERTIFICATE`),
}

// reference is the time by which package time writes layouts.
const reference = "02 Jan 2006 15:04"

// datesIn returns the dated literals of a file: of a Go file those in literals, of another those anywhere.
func datesIn(path string, text []byte) []string {
	var found []string
	for _, literal := range literals(path, text) {
		for _, pattern := range dated {
			for _, date := range pattern.FindAllString(literal, -1) {
				if !strings.Contains(date, reference) {
					found = append(found, date)
				}
			}
		}
	}
	return found
}

// literals returns the literals of a Go file, or the whole text of another.
func literals(path string, text []byte) []string {
	if filepath.Ext(path) != ".go" {
		return []string{string(text)}
	}
	var all []string
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(path, -1, len(text)), text, nil, 0)
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return all
		case token.INT, token.STRING:
			all = append(all, lit)
		}
	}
}

// isTest tells whether a file is part of a test: Go tests, their data, all settings, and the programs in integration.
func isTest(path string) bool {
	path = filepath.ToSlash(path)
	switch filepath.Ext(path) {
	case ".yaml", ".yml":
		return true
	case ".go", ".mjs", ".js":
		return strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "integration/")
	}
	return strings.Contains(path, "/testdata/")
}
