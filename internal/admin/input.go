package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// maxBody bounds a request's body in bytes: 10,000 tags of 800 bytes.
const maxBody = 8 << 20

// badInput is what is wrong with a request: its sender can mend it.
type badInput struct {
	// field is where, "" for the whole; value what was sent, clipped; why what is wrong with it; mend what would be right.
	field, value, why, mend string
	status                  int // 0 means 400
}

// Error says all of it on one line.
func (b *badInput) Error() string {
	text := b.why + "; " + b.mend
	if b.value != "" {
		text = b.value + " " + text
	}
	if b.field != "" {
		text = b.field + ": " + text
	}
	return text
}

// clip shortens what is quoted in an error.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// writeBad answers with what is wrong.
func writeBad(w http.ResponseWriter, b *badInput) {
	status := b.status
	if status == 0 {
		status = http.StatusBadRequest
	}
	WriteJSON(w, status, Error{ErrorDetail{Status: status, Message: b.Error(), Field: b.field, Value: b.value, Mend: b.mend}})
}

// setter puts the value of one field where it belongs.
type setter func(json.RawMessage) *badInput

// decode reads a JSON object whose fields are known: no other, none twice, each of its type. example is one that would do.
func decode(w http.ResponseWriter, r *http.Request, example string, fields map[string]setter) *badInput {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &badInput{why: fmt.Sprintf("the body is larger than %d bytes", maxBody), mend: "send it in parts", status: http.StatusRequestEntityTooLarge}
	}
	mend := "send a JSON object such as " + example
	switch {
	case err != nil:
		return &badInput{why: "the body broke off: " + err.Error(), mend: mend}
	case len(bytes.TrimSpace(body)) == 0:
		return &badInput{why: "the body is empty", mend: mend}
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return &badInput{value: clip(string(bytes.TrimSpace(body))), why: "is no JSON object", mend: mend}
	}
	if bad := decodeFields(dec, fields); bad != nil {
		return bad
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(dec, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &badInput{why: fmt.Sprintf("there is more after the object, at byte %d", dec.InputOffset()), mend: "send one object"}
	}
	return nil
}

func notJSON(dec *json.Decoder, err error) *badInput {
	return &badInput{why: fmt.Sprintf("the body is no valid JSON after byte %d: %v", dec.InputOffset(), err), mend: "quote names and texts, and close what is open"}
}

func decodeFields(dec *json.Decoder, fields map[string]setter) *badInput {
	seen := make(map[string]bool)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return notJSON(dec, err)
		}
		name, _ := t.(string) // the decoder takes nothing else here
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return notJSON(dec, err)
		}
		set, known := fields[name]
		switch {
		case !known:
			return &badInput{field: clip(name), value: clip(string(raw)), why: "is for no field of this request", mend: "the fields are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")}
		case seen[name]:
			return &badInput{field: name, value: clip(string(raw)), why: "is the second value of the field", mend: "write it once"}
		}
		seen[name] = true
		if bad := set(raw); bad != nil {
			return bad
		}
	}
	return nil
}

// wrongType says that a field's value is of another type. kind is such as `a text: "…"`.
func wrongType(field string, raw json.RawMessage, kind string) *badInput {
	return &badInput{field: field, value: clip(string(raw)), why: "is of the wrong type", mend: "write " + kind}
}

// text takes a JSON string that is not empty.
func text(field string, to *string) setter {
	return func(raw json.RawMessage) *badInput {
		var v *string
		if err := json.Unmarshal(raw, &v); err != nil || v == nil {
			return wrongType(field, raw, `a text: "…"`)
		}
		if *v == "" {
			return &badInput{field: field, value: `""`, why: "is empty", mend: "write a value, or leave the field out"}
		}
		*to = *v
		return nil
	}
}

// truth takes true or false.
func truth(field string, to *bool) setter {
	return func(raw json.RawMessage) *badInput {
		var v *bool
		if err := json.Unmarshal(raw, &v); err != nil || v == nil {
			return wrongType(field, raw, "true or false")
		}
		*to = *v
		return nil
	}
}

// texts takes a list of JSON strings, at least one, none of them empty.
func texts(field string, to *[]string) setter {
	return func(raw json.RawMessage) *badInput {
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil || items == nil {
			return wrongType(field, raw, `a list of texts: ["…"]`)
		}
		if len(items) == 0 {
			return &badInput{field: field, value: "[]", why: "is empty", mend: "name at least one, or leave the field out"}
		}
		list := make([]string, len(items))
		for i, item := range items {
			if bad := text(fmt.Sprintf("%s[%d]", field, i), &list[i])(item); bad != nil {
				return bad
			}
		}
		*to = list
		return nil
	}
}

// header takes an object of request fields, each value a text or a list of texts.
func header(field string, to *http.Header) setter {
	return func(raw json.RawMessage) *badInput {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
			return wrongType(field, raw, `an object: {"Accept-Encoding": "gzip"}`)
		}
		h := make(http.Header)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if bad := headerValues(field, name, fields[name], h); bad != nil {
				return bad
			}
		}
		*to = h
		return nil
	}
}

func headerValues(field, name string, raw json.RawMessage, h http.Header) *badInput {
	var one *string
	var list []string
	at := field + "." + clip(name)
	switch {
	case json.Unmarshal(raw, &one) == nil && one != nil:
		list = []string{*one}
	case json.Unmarshal(raw, &list) != nil || list == nil:
		return wrongType(at, raw, `a text or a list of texts: "gzip"`)
	}
	for _, v := range list {
		if bad := addField(at, name, v, h); bad != nil {
			return bad
		}
	}
	return nil
}

// addField adds a request field if it could be one: RFC 9110 §5.1, §5.5.
func addField(at, name, value string, h http.Header) *badInput {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return &badInput{field: at, value: fmt.Sprintf("%q", clip(name)), why: "is no name of a header field", mend: "write one such as Accept-Encoding"}
	case !httpguts.ValidHeaderFieldValue(value):
		return &badInput{field: at, value: fmt.Sprintf("%q", clip(value)), why: "has bytes that no header field may have", mend: "write it on one line without control characters"}
	case strings.EqualFold(name, "Host"):
		return &badInput{field: at, value: fmt.Sprintf("%q", clip(value)), why: "is said by the url already", mend: "leave it out"}
	}
	h.Add(name, value)
	return nil
}
