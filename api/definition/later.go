package definition

// Words of the design that this version does not know yet. Who writes one gets
// told so, and not asked whether another word was meant. A word leaves this table
// when it enters the schema.

// laterKinds are kinds of definitions.
var laterKinds = map[string]bool{"Workflow": true, "Calendar": true, "Alert": true}

// laterFields are fields, by the object they will stand in; [] is any item.
var laterFields = map[string]string{
	"spec.executor.http":        "executor http comes with a later version; use shell, func or external",
	"spec.triggers[].event":     "trigger event comes with a later version; use cron, interval or once",
	"spec.triggers[].dependsOn": "triggers by other tasks come with a later version; use cron, interval or once",
	"spec.triggers[].dst":       "dst comes with a later version; leave it out for the rule of AX",
	"spec.triggers[].calendar":  "calendars come with a later version",
	"spec.startWithin":          "startWithin comes with a later version",
	"spec.fallback":             "fallback comes with a later version",
	"spec.overlap.maxQueued":    "overlap queue comes with a later version; use forbid or allow",
}

// laterValues are values, by their field.
var laterValues = map[string]map[string]string{
	"spec.overlap.policy": {
		"queue":   "queue comes with a later version; use forbid or allow",
		"replace": "replace comes with a later version; use forbid or allow",
	},
}
