package telemetry

import (
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// NewLogger makes a logger that writes lines to w: format "json" or "" for one JSON object a line, "console" for people. Level is
// "debug", "info" or "" for it, "warn", "error", or "off". Times are RFC 3339 with milliseconds, in UTC. Writes to w are not serialised:
// each line is one Write, which files and pipes keep whole.
func NewLogger(format, level string, w io.Writer) (zerolog.Logger, error) {
	lv, err := parseLevel(level)
	if err != nil {
		return zerolog.Nop(), err
	}
	switch format {
	case "json", "":
	case "console":
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000"}
	default:
		return zerolog.Nop(), fmt.Errorf("telemetry: log format %q: json or console", format)
	}
	return zerolog.New(w).Level(lv).Hook(stamp{}), nil
}

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// stamp puts the time on each line, without the package-wide settings of zerolog, which belong to the program that embeds us.
type stamp struct{}

// Run implements zerolog.Hook.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	var buf [len(timeFormat)]byte
	e.Bytes(zerolog.TimestampFieldName, time.Now().UTC().AppendFormat(buf[:0], timeFormat))
}

func parseLevel(s string) (zerolog.Level, error) {
	switch s {
	case "debug", "warn", "error":
		return zerolog.ParseLevel(s)
	case "info", "":
		return zerolog.InfoLevel, nil
	case "off":
		return zerolog.Disabled, nil
	default:
		return zerolog.Disabled, fmt.Errorf("telemetry: log level %q: debug, info, warn, error or off", s)
	}
}
