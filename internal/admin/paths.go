package admin

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/pprof"

	"github.com/rs/zerolog"
)

func healthz(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }

// readyz answers 503 while the process starts or drains, so that balancers send nothing new. Of what is degraded it only
// tells: the proxy serves all the same.
func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	ok, why := true, ""
	if a.o.Ready != nil {
		ok, why = a.o.Ready()
	}
	if !ok {
		writeText(w, http.StatusServiceUnavailable, why)
		return
	}
	text := "ready"
	if a.o.Degraded != nil {
		if what := a.o.Degraded(); what != "" {
			text += "; degraded: " + what
		}
	}
	writeText(w, http.StatusOK, text)
}

// mountPprof mounts the profiles; Index serves the named ones itself.
func (a *Admin) mountPprof() {
	a.mux.HandleFunc("/debug/pprof/", pprof.Index)
	a.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	WriteError(w, http.StatusNotFound, "no such path")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that is gone needs no answer
}

// Error is the body of every refusal: {"error":{"status":404,"message":"no such path"}}. One that the sender can mend names field, value and
// what would be right as well.
type Error struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail says what went wrong, in words meant for a person.
type ErrorDetail struct {
	Status  int    `json:"status"`
	Message string `json:"message"`
	// Field, Value and Mend are where a request is wrong, what it says there, and what would be right; "" where that does not apply.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Mend  string `json:"mend,omitempty"`
}

// WriteError answers with status and message.
func WriteError(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, Error{Error: ErrorDetail{Status: status, Message: message}})
}

// WriteJSON answers with v. It panics if v cannot be encoded, which is the programmer's error.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // nosniff is set, and people read the URLs
	if err := enc.Encode(v); err != nil {
		panic("admin: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that is gone needs no answer
}

// standardLog is what net/http writes to.
func standardLog(l zerolog.Logger) *log.Logger { return log.New(warnWriter{l}, "", 0) }

type warnWriter struct{ l zerolog.Logger }

// Write logs one line.
func (w warnWriter) Write(p []byte) (int, error) {
	w.l.Warn().Msg(string(p[:max(len(p)-1, 0)]))
	return len(p), nil
}
