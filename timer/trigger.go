package timer

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// maxCalendars bounds the calendars kept in memory. Triggers with the same text
// share one.
const maxCalendars = 20_000

// Calendars makes calendars of triggers and keeps them.
type Calendars struct {
	mu   sync.Mutex
	kept map[calendarText]Calendar
}

// calendarText is all that a calendar depends on.
type calendarText struct {
	cron, zone, dialect string
	every, offset       events.Duration
}

// Of gives the calendar of a trigger. definedAt is when its text was first
// defined, for a delay. A trigger of the machine's boot has a calendar that is
// never due.
func (c *Calendars) Of(t *events.TriggerSpec, definedAt time.Time) (Calendar, error) {
	if t.Once != nil {
		if t.Once.At != nil {
			return NewOnce(*t.Once.At), nil
		}
		return NewOnce(definedAt.Add(time.Duration(t.Once.Delay))), nil
	}
	text := calendarText{cron: t.Cron, zone: t.TimeZone, dialect: t.Dialect}
	if t.Interval != nil {
		text.every, text.offset = t.Interval.Every, t.Interval.Offset
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cal, ok := c.kept[text]; ok {
		return cal, nil
	}
	cal, err := makeCalendar(text)
	if err != nil {
		return nil, err
	}
	if c.kept == nil || len(c.kept) >= maxCalendars {
		c.kept = map[calendarText]Calendar{}
	}
	c.kept[text] = cal
	return cal, nil
}

func makeCalendar(t calendarText) (Calendar, error) {
	if t.cron == "" {
		return NewInterval(time.Duration(t.every), time.Duration(t.offset))
	}
	opt := CronOptions{Dialect: Dialect(t.dialect)}
	if t.zone != "" {
		zone, reason := loadZone(t.zone)
		if reason != "" {
			return nil, newExprError(t.cron, "time zone", t.zone, reason)
		}
		opt.Zone = zone
	}
	cal, err := ParseCron(t.cron, opt)
	if errors.Is(err, ErrReboot) {
		return NewOnce(time.Time{}), nil
	}
	return cal, err
}

// CheckTask says what is wrong with the triggers of a task that is complete
// otherwise.
func (c *Calendars) CheckTask(s *events.TaskSpec) error {
	var errs []error
	for i := range s.Triggers {
		if _, err := c.Of(&s.Triggers[i], time.Unix(0, 0)); err != nil {
			field := fmt.Sprintf("spec.triggers[%d]", i)
			var bad *ExprError
			if errors.As(err, &bad) && bad.Field == "time zone" && s.Triggers[i].TimeZone != "" {
				field += ".timeZone"
			} else if s.Triggers[i].Cron != "" {
				field += ".cron"
			} else {
				field += ".interval"
			}
			errs = append(errs, &events.FieldError{Field: field, Reason: err.Error()})
		}
	}
	return errors.Join(errs...)
}
