package definition

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar reads a value that is no list and no object. The reason is what is wrong
// with it, whatever field it stands in.
func scalar(n *yaml.Node) (v *node, reason string) {
	v = &node{at: placeOf(n), text: n.Value}
	tag := n.ShortTag()
	if n.Style&yaml.TaggedStyle != 0 && tag != "!!str" {
		return v, fmt.Sprintf("has the tag %s; write the value without it", quote(n.Tag))
	}
	switch tag {
	case "!!null":
		v.text = ""
		return v, ""
	case "!!bool":
		v.kind, v.text = boolean, strings.ToLower(n.Value)
		return v, ""
	case "!!int", "!!float":
		v.kind = number
		if !numberForm.MatchString(n.Value) {
			return v, explainNumber(n.Value)
		}
		return v, checkNumber(n.Value)
	}
	v.kind, v.plain = text, n.Style == 0
	if v.plain && numberForm.MatchString(n.Value) { // the YAML reader gave up on it
		return v, checkNumber(n.Value)
	}
	return v, ""
}

// numberForm is how JSON writes numbers.
var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// checkNumber bounds a number in JSON's form. What works with it later, the
// schema's validator too, calculates with all of its digits.
func checkNumber(s string) (reason string) {
	if len(s) > MaxNumber {
		return fmt.Sprintf("has %d digits, at most %d; put it into quotes if it is a text", len(s), MaxNumber)
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if exp, err := strconv.Atoi(s[i+1:]); err != nil || exp < -308 || exp > 308 {
			return fmt.Sprintf("%s is out of the range of numbers; put it into quotes if it is a text", cut(s, 60))
		}
	}
	return ""
}

// explainNumber is about numbers that YAML knows and JSON does not. The versions
// of YAML differ about most of them (D4).
func explainNumber(s string) (reason string) {
	quoted := fmt.Sprintf("or %s if it is a text", quote(s))
	digits := strings.ReplaceAll(s, "_", "")
	plain := strings.TrimLeft(digits, "+-")
	if len(plain) > 1 && plain[0] == '0' && strings.Trim(plain, "01234567") == "" {
		if n, err := strconv.ParseInt(digits, 8, 64); err == nil && strconv.FormatInt(n, 10) != decimal(digits) {
			return fmt.Sprintf("%s is %d in YAML 1.1 and %s in YAML 1.2; write the one you mean, %s", s, n, decimal(digits), quoted)
		}
	}
	if n, err := strconv.ParseInt(digits, 0, 64); err == nil {
		return fmt.Sprintf("%s: numbers are written in plain decimal; write %d, %s", cut(s, 60), n, quoted)
	}
	if len(s) <= MaxNumber && numberForm.MatchString(decimal(digits)) {
		return fmt.Sprintf("%s: numbers are written in plain decimal; write %s, %s", s, decimal(digits), quoted)
	}
	return fmt.Sprintf("%s is no number that JSON knows; write another one, %s", cut(s, 60), quoted)
}

// decimal gives digits without what JSON does not want around them.
func decimal(s string) string {
	s, negative := strings.CutPrefix(strings.TrimPrefix(s, "+"), "-")
	s = strings.TrimLeft(s, "0")
	if s == "" || s[0] < '0' || s[0] > '9' {
		s = "0" + s
	}
	mantissa, exp := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exp = s[:i], s[i:]
	}
	if strings.HasSuffix(mantissa, ".") {
		mantissa += "0"
	}
	if negative {
		mantissa = "-" + mantissa
	}
	return mantissa + exp
}

// doubt says how YAML 1.1 reads a text without quotes, if not as a text.
func doubt(s string) string {
	switch s {
	case "yes", "Yes", "YES", "on", "On", "ON":
		return "true"
	case "no", "No", "NO", "off", "Off", "OFF":
		return "false"
	}
	if sexagesimal.MatchString(s) {
		return "a number to base 60"
	}
	return ""
}

var sexagesimal = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
