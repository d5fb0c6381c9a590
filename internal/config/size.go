package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes, written with a unit: 64KiB, 512MiB, 20GB.
type Size int64

// Binary units.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

const sizeMend = "write a number and a unit: 64KiB, 512MiB, 20GiB"

func (s *Size) parse(text string) error {
	text = strings.TrimSpace(text)
	if text == "0" {
		*s = 0
		return nil
	}
	if strings.HasPrefix(text, "-") {
		return wrong(fmt.Sprintf("%q is negative", text), sizeMend)
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return wrong(fmt.Sprintf("%q has no unit", text), "write "+text+"MiB for mebibytes or "+text+"B for bytes")
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return wrong(fmt.Sprintf("%q is not a size", text), sizeMend)
	}
	*s = Size(n)
	return nil
}

func (s *Size) text() string {
	for _, u := range []struct {
		unit Size
		name string
	}{{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if *s != 0 && *s%u.unit == 0 {
			return strconv.FormatInt(int64(*s/u.unit), 10) + u.name
		}
	}
	if *s == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(*s), 10) + "B"
}

// String returns the size as it is written in a file.
func (s Size) String() string { return s.text() }

// roundDown drops what is below one MiB, so that a derived default reads well; a size below that stays.
func (s Size) roundDown() Size {
	if s < MiB {
		return s
	}
	return s / MiB * MiB
}
