// Package config turns one YAML file, the environment and command-line flags into typed, validated settings.
//
// # Usage
//
//	cfg, err := config.Load(config.Options{File: "swrproxy.yaml"})
//	if err != nil {
//		fmt.Fprintln(os.Stderr, err) // every mistake with file, line, column, excerpt and what would be right
//	}
//	for _, w := range cfg.Warnings() { … }
//	os.Stdout.Write(cfg.YAML()) // the effective settings, secrets masked
//
// The schema is the [Config] struct itself: a field's yaml tag is its key, and what was set before decoding is its
// default. Loading goes file, then flags, then rules across keys. A value may contain ${NAME}, which is replaced by the
// environment variable NAME; $${ stands for a literal ${. Replacement happens inside values after parsing, so that
// a variable can never add keys.
//
// Spans are written as numbers with units, "300ms", "1h30m", "7d" (d is 24 hours, w is 7 days), and sizes as "64KiB",
// "512MiB", "20GB". The number 0 needs no unit.
//
// # Concurrency
//
// A Config is immutable after Load and safe for concurrent use.
//
// # Errors
//
// Load returns an *[Error] that lists every [Problem] found in one run, or the error of reading the file. A file that
// is not YAML yields one Problem, since nothing after the first syntax error can be trusted.
//
// # Limits
//
// A file may have 4 MiB, 100,000 values with aliases expanded, and 40 levels of nesting.
package config
