package origin

import (
	"net/http"
	"strconv"
	"strings"
)

// MaxHops is how often a request may come by before it counts as a loop.
const MaxHops = 8

// loops reports whether Via names this proxy MaxHops times (RFC 9110 §7.6.3).
func (p *Pool) loops(h http.Header) bool {
	seen := 0
	for _, line := range h["Via"] {
		for hop := range strings.SplitSeq(line, ",") {
			if by := strings.Fields(hop); len(by) > 1 && by[1] == p.cfg.Via {
				seen++
			}
		}
	}
	return seen >= MaxHops
}

// forwardsLeft reads Max-Forwards, which counts for OPTIONS and TRACE only (RFC 9110 §7.6.2).
func forwardsLeft(req *http.Request) (n uint64, ok bool) {
	if req.Method != http.MethodOptions && req.Method != http.MethodTrace {
		return 0, false
	}
	n, err := strconv.ParseUint(req.Header.Get("Max-Forwards"), 10, 32)
	return n, err == nil
}

// lowerMaxForwards forwards one less than came.
func lowerMaxForwards(f fields, req *http.Request) fields {
	if n, ok := forwardsLeft(req); ok && n > 0 {
		return f.with("Max-Forwards", []string{strconv.FormatUint(n-1, 10)})
	}
	return f
}

// answerLast answers, as the final recipient, a request that may not be forwarded any more: OPTIONS with an empty 200,
// TRACE with 405, since it would send back what proxies before us added.
func answerLast(req *http.Request) *http.Response {
	status := http.StatusOK
	if req.Method == http.MethodTrace {
		status = http.StatusMethodNotAllowed
	}
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Length": {"0"}}, Body: http.NoBody, Request: req,
	}
}
