package policy

import "time"

// imfFixdate parses the preferred form of an HTTP-date, "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 §5.6.7), of exactly 29 bytes. Every response has
// one, and time.Parse with the checks that it leaves out takes fifteen times as long.
func imfFixdate(s string) (time.Time, bool) {
	if len(s) != 29 || s[3:5] != ", " || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' || s[19] != ':' || s[22] != ':' || s[25:] != " GMT" || !isDayName(s[:3]) {
		return time.Time{}, false
	}
	month, ok := monthOf(s[8:11])
	day, ok1 := digits(s[5:7])
	year, ok2 := digits(s[12:16])
	hour, ok3 := digits(s[17:19])
	minute, ok4 := digits(s[20:22])
	second, ok5 := digits(s[23:25])
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	return t, t.Day() == day // else there is no such day in this month
}

// digits reads a number that consists of nothing but digits.
func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = 10*n + int(c)
	}
	return n, true
}

// monthOf reads a month's short name in the one case that the grammar has.
func monthOf(s string) (time.Month, bool) {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := range 12 {
		if names[3*m:3*m+3] == s {
			return time.Month(m + 1), true
		}
	}
	return 0, false
}
