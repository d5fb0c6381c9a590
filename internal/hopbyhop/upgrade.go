package hopbyhop

import (
	"net/http"
	"strings"
)

// UpgradeType returns what the Upgrade field of h asks for, in lower case, or "" if no Connection line names upgrade
// (RFC 9110 §7.8). A list of several protocols is returned as it stands, so it equals none.
func UpgradeType(h http.Header) string {
	lines := h["Upgrade"]
	if len(lines) == 0 || !hasToken(h["Connection"], "upgrade") {
		return ""
	}
	return strings.ToLower(strings.Join(lines, ", "))
}

// AcceptsTrailers reports whether the TE field of h has the member "trailers" (RFC 9110 §10.1.4). Strip removes TE, so
// ask before, and set "TE: trailers" on the forwarded message if that hop can deliver them as well.
func AcceptsTrailers(h http.Header) bool { return hasToken(h["Te"], "trailers") }

// hasToken reports whether one of the comma-separated lists has token, which must be lower case, as a member without
// parameters.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for rest := line; rest != ""; {
			var member string
			member, rest, _ = strings.Cut(rest, ",")
			if strings.EqualFold(strings.Trim(member, " \t"), token) {
				return true
			}
		}
	}
	return false
}
