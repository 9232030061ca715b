// Package crontab reads crontab(5) files as cronie does, for import into AX.
//
// # The format
//
// A file is lines. Blanks and tabs at the beginning of a line do not count; a
// line with nothing else, or whose first other character is #, is skipped. What
// remains is one of three:
//
//	NAME = value                           a variable
//	minute hour dom month dow command      an entry of a user's crontab
//	minute hour dom month dow user command an entry of /etc/crontab or /etc/cron.d
//
// One of @hourly @daily @midnight @weekly @monthly @yearly @annually @reboot may
// stand for the five time fields. A variable holds for the entries below it until
// it is set again; CRON_TZ among them is the zone in which the fields are read.
// Value and name may be quoted. In a command the first % that has no \ before it
// ends the command and begins its standard input, in which every such % is a
// newline; \% is a %.
//
// # What a caller may rely on
//
//	C1  Each line stands alone. A line that cannot be read is one Reject, with its
//	    number and the reason, and has no effect on any other; the exception is a
//	    CRON_TZ that names no zone, which rejects the entries it would hold for.
//	C2  Every Entry that is not Reboot has a CronExpr that timer.ParseCron reads.
//	C3  Nothing panics, and time and space grow with the size of the file, which
//	    is bounded by MaxFile, MaxLine and MaxLines.
//
// # Where crontab(5) is silent
//
// The verdicts are cronie's (its entry.c, env.c and do_command.c), but for
// the cases below, in which its answer loses work or runs something that nobody
// wrote. Each is deliberate.
//
//   - A last line without a newline is read as any other, with a Note. cron drops
//     an entry there, in case the file was cut off.
//   - A carriage return at the end of a line (CRLF files) is taken off, and a line
//     of nothing else is blank. cron makes it part of the command.
//   - A byte order mark at the beginning of the file is taken off.
//   - A line with a NUL byte, or that is not UTF-8, is rejected: a command could
//     not be written down unchanged. Comments may hold anything.
//   - Text after a "*" (*5, *x) is rejected. cronie ignores it.
//   - A step after a single number (0/5) is rejected, as cronie does; other crons
//     read it as 0-59/5.
//   - A sixth field that begins with "*" is rejected, as cronie does: it is a
//     field too many, not a command.
//   - @ names are lower case, as in cronie.
//   - A user that is no possible user name (<%= user %>, @OWNER@) is rejected: the
//     file is a template. Whether the user exists is not looked at.
//   - "NAME=" with nothing after it sets an empty value, as in newer cronie;
//     an empty name is rejected.
//   - Anything after the closing quote of a value, and a quote that never closes,
//     is rejected, as cronie does.
//   - A "-" before the fields (cronie: do not log) is read in system crontabs and
//     rejected in others, where cron allows it to root alone.
//   - Random values (0~30) are rejected; AX has jitter.
//   - CRON_TZ="" is the default zone again. A CRON_TZ that names no zone of the
//     IANA database rejects the entries that it would hold for; cron would take
//     UTC without a word.
package crontab
