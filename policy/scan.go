package policy

import "strings"

// isToken reports whether s is a token (RFC 9110 §5.6.2).
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if !tokenChar[s[i]] {
			return false
		}
	}
	return true
}

// tokenChar marks the octets of RFC 9110 §5.6.2 tchar.
var tokenChar = charset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

func charset(s string) (set [256]bool) {
	for i := range len(s) {
		set[s[i]] = true
	}
	return set
}

// trimOWS removes optional white space around a value (RFC 9110 §5.6.3).
func trimOWS(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// cutMember cuts the first member off a comma-separated list (RFC 9110 §5.6.1). Commas inside quoted strings do not
// separate; an unterminated quoted string reaches to the end. The member has no surrounding white space and may be
// empty. more reports that a comma followed, so that rest is a list too.
func cutMember(list string) (member, rest string, more bool) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return trimOWS(list[:i]), list[i+1:], true
		}
	}
	return trimOWS(list), "", false
}

// nextMember is cutMember for lists whose empty members do not count.
func nextMember(list string) (member, rest string) {
	member, rest, _ = cutMember(list)
	return member, rest
}

// members calls yield with each non-empty member of a list field, over all its lines (RFC 9110 §5.3, §5.6.1).
func members(lines []string, yield func(string) bool) {
	for _, line := range lines {
		for line != "" {
			var m string
			if m, line = nextMember(line); m != "" && !yield(m) {
				return
			}
		}
	}
}

// cutDirective splits a member "name=value" at its first equals sign. Quoted values lose their quotes and escapes, so
// that both forms of an argument read the same (RFC 9111 §5.2). ok is false when the member is neither a token nor
// token=token nor token=quoted-string.
func cutDirective(m string) (name, value string, has, ok bool) {
	name, value, has = strings.Cut(m, "=")
	if !isToken(name) {
		return name, value, has, false
	}
	if !has {
		return name, "", false, true
	}
	if strings.HasPrefix(value, `"`) {
		value, ok = unquote(value)
		return name, value, true, ok
	}
	return name, value, true, isToken(value)
}

// unquote reads one whole quoted-string (RFC 9110 §5.6.4).
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	if !strings.ContainsAny(s, `"\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return "", false
		case s[i] == '\\':
			if i++; i == len(s) {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}

// get returns the only or first line of a field whose name is already canonical, without http.Header's
// canonicalisation.
func get(h map[string][]string, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}
