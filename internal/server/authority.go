package server

import (
	"bytes"
)

// validHost checks a Host field's value, or the authority that took its place (RFC 9110 §7.2, RFC 9112 §3.2): a host with an
// optional port and nothing else, no user, no path, no list. Only HTTP/1.0 may name none.
func validHost[T string | []byte](s T, old bool) bool {
	if len(s) == 0 {
		return old
	}
	if s[0] == '[' {
		return validLiteral(s[1:])
	}
	for i := range len(s) {
		if s[i] == ':' {
			return i > 0 && validPort(s[i:])
		}
		if !isName[s[i]] {
			return false
		}
	}
	return true
}

// validLiteral checks an IP literal (RFC 3986 §3.2.2) behind its opening bracket.
func validLiteral[T string | []byte](s T) bool {
	for i := range len(s) {
		switch {
		case s[i] == ']':
			return i > 0 && validPort(s[i+1:])
		case s[i] != ':' && !isName[s[i]]:
			return false
		}
	}
	return false
}

// validPort takes nothing, or a colon and up to five digits.
func validPort[T string | []byte](s T) bool {
	if len(s) == 0 {
		return true
	}
	if s[0] != ':' || len(s) > len(":65535") {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// isName holds the bytes of a reg-name: unreserved, sub-delims and the percent of an escape.
var isName = nameBytes()

func nameBytes() (name [256]bool) {
	for c := range 256 {
		b := byte(c)
		name[c] = isDigit(b) || ('a' <= b|0x20 && b|0x20 <= 'z') || bytes.IndexByte([]byte("-._~!$&'()*+,;=%"), b) >= 0
	}
	return name
}
