package main

import (
	"net"
	"strings"
)

// fill puts values into a configuration, whose names are in capitals.
func fill(template string, values map[string]string) string {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, name, value)
	}
	return strings.NewReplacer(pairs...).Replace(template)
}

// without is a configuration less the lines that begin with prefix.
func without(template, prefix string) string {
	var kept strings.Builder
	for line := range strings.Lines(template) {
		if !strings.HasPrefix(line, prefix) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// benchmarkLines keeps of go test's output what benchstat reads.
func benchmarkLines(out []byte) []byte {
	var kept strings.Builder
	for line := range strings.Lines(string(out)) {
		for _, prefix := range []string{"goos:", "goarch:", "pkg:", "cpu:", "Benchmark"} {
			if strings.HasPrefix(line, prefix) {
				kept.WriteString(line)
			}
		}
	}
	return []byte(kept.String())
}
