package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// scalar is implemented by pointers to the leaf types of the schema.
type scalar interface {
	// parse reads the value's text; the error is a *mistake.
	parse(text string) error
	// text writes the value so that parse reads it back.
	text() string
}

// mistake says what is wrong with a value and what would be right.
type mistake struct {
	what, mend string
	// secret keeps the line out of the message.
	secret bool
}

func (m *mistake) Error() string { return m.what + "; " + m.mend }

func wrong(what, mend string) error { return &mistake{what: what, mend: mend} }

// wrongSecret is for lines that may hold a password.
func wrongSecret(what, mend string) error { return &mistake{what: what, mend: mend, secret: true} }

// parseEnum sets dst to text if it is one of words.
func parseEnum[T ~string](dst *T, text string, words []string) error {
	for _, w := range words {
		if text == w {
			*dst = T(w)
			return nil
		}
	}
	mend := "write " + orList(words)
	if near := nearest(text, words); near != "" {
		mend = fmt.Sprintf("did you mean %q? It is one of %s", near, strings.Join(words, ", "))
	}
	return wrong(fmt.Sprintf("%q is not a choice here", text), mend)
}

// orList writes "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, wrong(fmt.Sprintf("%q is neither true nor false", text), "write true or false")
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	switch {
	case err != nil:
		return 0, wrong(fmt.Sprintf("%q is not a whole number", text), "write digits only, such as 512")
	case n < 0:
		return 0, wrong(text+" is negative", "write 0 or a positive number")
	}
	return int(n), nil
}

// parsePrefix takes a network or a single address.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, wrong(fmt.Sprintf("%q is not a network", text), "write an address with prefix length, such as 10.0.0.0/8, or one address")
	}
	if p != p.Masked() {
		return p, wrong(fmt.Sprintf("%q has bits set beyond its prefix", text), "write "+p.Masked().String())
	}
	return p, nil
}

// Fraction is a number from 0 to 1.
type Fraction float64

func (f *Fraction) parse(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return wrong(fmt.Sprintf("%q is not a fraction", text), "write a number from 0 to 1, such as 0.1")
	}
	*f = Fraction(v)
	return nil
}

func (f *Fraction) text() string { return strconv.FormatFloat(float64(*f), 'g', -1, 64) }

// Secret is a text that is never printed.
type Secret string

func (s *Secret) parse(text string) error {
	*s = Secret(text)
	return nil
}

func (s *Secret) text() string {
	if *s == "" {
		return ""
	}
	return secretMask
}

// String returns a mask, so that no log or message shows the secret by accident.
func (s Secret) String() string { return s.text() }

const secretMask = "(secret)"
