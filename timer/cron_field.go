package timer

import (
	"fmt"
	"strings"
)

// A cronField says what may stand in one field of an expression. Values are the
// written ones (Sunday is 1 in Quartz, 0 or 7 in Unix).
type cronField struct {
	name     string // as it stands in errors
	min, max int

	// names gives the three letters that stand for a value, upper case, the
	// first of them for nameBase. Nil where only numbers are known.
	names    []string
	nameBase int

	quartz  bool // Quartz reads the items; otherwise Unix cron does
	wraps   bool // Quartz only: a range may run past the end of the field
	maxStep int  // Quartz only: the largest step after "*" or a single value
}

// A cronItem is one part of a list: "*", "5", "1-5", each perhaps with "/n".
type cronItem struct {
	lo, hi int
	step   int  // at least 1
	star   bool // begins with "*", or counts as such: Quartz's "/n" and "0/n"
}

// values calls add with each value that the item selects. A range that runs
// backwards goes on from the field's first value.
func (f *cronField) values(it cronItem, add func(int)) {
	last := it.hi
	if last < it.lo {
		last += f.max - f.min + 1
	}
	for v := it.lo; v <= last; v += it.step {
		if v <= f.max {
			add(v)
		} else {
			add(v - (f.max - f.min + 1))
		}
	}
}

// list reads a whole field. On failure reason says what is wrong with value, a
// part of it, and what to write.
func (f *cronField) list(text string) (items []cronItem, value, reason string) {
	for part := range strings.SplitSeq(text, ",") {
		it, reason := f.item(part)
		if reason != "" {
			if part == "" {
				part = text
			}
			return nil, part, reason
		}
		items = append(items, it)
	}
	return items, "", ""
}

func (f *cronField) item(text string) (it cronItem, reason string) {
	base, stepText, stepped := strings.Cut(text, "/")
	it.step = 1
	if stepped {
		n, ok := smallNumber(stepText)
		switch {
		case !ok:
			return it, `"/" has to be followed by a number`
		case n == 0:
			return it, "a step of 0 never moves on; use 1 or more"
		}
		it.step = n
	}

	from, to, ranged := strings.Cut(base, "-")
	switch {
	case base == "*", base == "" && stepped && f.quartz:
		it.lo, it.hi, it.star = f.min, f.max, true
		return it, f.stepReason(it, stepped)

	case base == "":
		return it, "nothing stands where a value should; write " + f.example()

	case !ranged:
		v, named, reason := f.value(base)
		if reason != "" {
			return it, reason
		}
		it.lo, it.hi = v, v
		if !stepped {
			return it, ""
		}
		if !f.quartz {
			return it, fmt.Sprintf("a step needs a range before it; write %s-%d/%s", base, f.max, stepText)
		}
		if named {
			return it, fmt.Sprintf("a name cannot have a step; write %d/%s", v, stepText)
		}
		it.hi, it.star = f.max, v == 0
		return it, f.stepReason(it, stepped)
	}

	lo, loNamed, reason := f.value(from)
	if reason != "" {
		return it, reason
	}
	hi, hiNamed, reason := f.value(to)
	if reason != "" {
		return it, reason
	}
	it.lo, it.hi = lo, hi
	switch {
	case f.quartz && loNamed != hiNamed:
		return it, fmt.Sprintf("a range has two names or two numbers; write %d-%d", lo, hi)
	case f.quartz && loNamed && stepped:
		return it, fmt.Sprintf("names cannot have a step; write %d-%d/%s", lo, hi, stepText)
	case lo > hi && !f.quartz && hi == 0 && f.max == 7: // sat-sun
		return it, fmt.Sprintf("runs backwards, since Sunday is 0 here; write %d-7", lo)
	case lo > hi && !f.quartz:
		return it, fmt.Sprintf("runs backwards; write %d-%d,%d-%d", lo, f.max, f.min, hi)
	case lo > hi && !f.wraps:
		return it, fmt.Sprintf("runs backwards; write %d-%d", hi, lo)
	}
	return it, ""
}

// stepReason applies Quartz's limit of a step after "*" or a single value. Unix
// cron has none: a step too large leaves the first value.
func (f *cronField) stepReason(it cronItem, stepped bool) string {
	if !stepped || f.maxStep == 0 || it.step <= f.maxStep {
		return ""
	}
	return fmt.Sprintf("a step of %d is larger than the field; use at most %d", it.step, f.maxStep)
}

// value reads one number or name.
func (f *cronField) value(text string) (v int, named bool, reason string) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.nameBase + i, true, ""
		}
	}
	v, ok := smallNumber(text)
	if !ok {
		return 0, false, f.strange(text)
	}
	if v < f.min || v > f.max {
		return 0, false, fmt.Sprintf("%d is out of range; use %d-%d", v, f.min, f.max)
	}
	return v, false, ""
}

// strange gives the best advice for what is neither a number nor a name.
func (f *cronField) strange(text string) string {
	switch {
	case text == "":
		return "one end of the range is missing; write " + f.example()
	case text == "?" && !f.quartz:
		return `"?" belongs to Quartz expressions of six or seven fields; write *`
	case text == "?":
		return `"?" may stand only for the day of month or the day of week; write *`
	case strings.HasPrefix(text, "*"):
		return `nothing may follow "*" but a step; write * or */2`
	case strings.Contains(text, "~"):
		return "random values are not supported; choose a number, or use the trigger's jitter"
	case !f.quartz && strings.ContainsAny(text, "LW#lw"):
		return "L, W and # belong to Quartz expressions of six or seven fields; write " + f.example()
	}
	return "is no value; write " + f.example()
}

func (f *cronField) example() string {
	if f.names != nil {
		return fmt.Sprintf("%d-%d, %s or *", f.min, f.max, f.names[0])
	}
	return fmt.Sprintf("%d-%d or *", f.min, f.max)
}

// smallNumber reads up to nine decimal digits, with leading zeros, no sign.
func smallNumber(text string) (n int, ok bool) {
	if text == "" || len(text) > 9 {
		return 0, false
	}
	for i := range len(text) {
		c := text[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

var (
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)
