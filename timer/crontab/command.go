package crontab

import "strings"

// splitCommand takes a line's command apart at its first unescaped %, as cronie's
// do_command.c does. In the command a backslash makes the next character mean
// itself, so \\% has an unescaped %; in the input it does so for % alone.
func (e *Entry) splitCommand(text string) {
	var command strings.Builder
	escaped := false
	for i := range len(text) {
		c := text[i]
		switch {
		case escaped && c == '%':
			command.WriteByte('%')
			escaped = false
			continue
		case escaped:
			command.WriteByte('\\')
			command.WriteByte(c)
			escaped = false
			continue
		case c == '\\':
			escaped = true
			continue
		case c == '%':
			e.Command = command.String()
			e.HasStdin = true
			e.Stdin = standardInput(text[i+1:])
			return
		}
		command.WriteByte(c)
	}
	if escaped {
		command.WriteByte('\\')
	}
	e.Command = command.String()
}

// standardInput turns % into newlines and \% into %, and ends the last line.
func standardInput(text string) string {
	var input strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && text[i+1] == '%':
			input.WriteByte('%')
			i++
		case c == '%':
			input.WriteByte('\n')
		default:
			input.WriteByte(c)
		}
	}
	if s := input.String(); s != "" && s[len(s)-1] != '\n' {
		input.WriteByte('\n')
	}
	return input.String()
}
