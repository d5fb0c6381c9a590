package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Braces mean something to YAML, so that {url: ${APP}} would be no YAML. While the document is parsed, the braces of
// variables are therefore stood in for by two characters from Unicode's private area, which keeps every column in its place.
const opening, closing = "\uE001", "\uE002"

var variables = regexp.MustCompile(`\$\{[^{}\s]*\}`)

// shield replaces the braces of variables.
func shield(data []byte) []byte {
	return variables.ReplaceAllFunc(data, func(v []byte) []byte {
		name := v[len("${") : len(v)-len("}")]
		return bytes.Join([][]byte{[]byte("$" + opening), name, []byte(closing)}, nil)
	})
}

var unshield = strings.NewReplacer(opening, "{", closing, "}")

// expand replaces ${NAME} by what env says and $${ by ${.
func expand(text string, env func(string) (string, bool)) (string, error) {
	text = unshield.Replace(text)
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var b strings.Builder
	for text != "" {
		i := strings.Index(text, "${")
		if i < 0 {
			b.WriteString(text)
			break
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		value, rest, err := variable(text[i+2:], env)
		if err != nil {
			return "", err
		}
		b.WriteString(text[:i] + value)
		text = rest
	}
	return b.String(), nil
}

// variable reads NAME} from the front of text.
func variable(text string, env func(string) (string, bool)) (value, rest string, err error) {
	name, rest, closed := strings.Cut(text, "}")
	if !closed {
		return "", "", wrong("${ is not closed", "write ${NAME}, or $${ for a literal ${")
	}
	if !isVariable(name) {
		return "", "", wrong(fmt.Sprintf("${%s} is not a variable name", name), "a name has letters, digits and _; write $${ for a literal ${")
	}
	value, ok := env(name)
	if !ok {
		return "", "", wrong(fmt.Sprintf("environment variable %s is not set", name), fmt.Sprintf("set %s, or write $${%s} for the literal text", name, name))
	}
	return value, rest, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
