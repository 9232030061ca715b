package definition_test

import (
	"fmt"

	"github.com/ax-scheduler/ax/api/definition"
	"github.com/ax-scheduler/ax/timer"
)

func ExampleParse() {
	calendars := new(timer.Calendars)
	_, err := definition.Parse("etl.yaml", []byte(`
apiVersion: ax/v1
kind: Task
metadata: {name: sync-orders, title: 订单同步}
spec:
  triggers:
    - cron: "61 * * * *"
  executor: {shell: {command: ./sync.sh}}
  timeout: 30
  retires: {max: 5}
`), definition.Options{CheckTask: calendars.CheckTask})
	fmt.Println(err)
	// Output:
	// etl.yaml:7:13: spec.triggers[0].cron: schedule "61 * * * *": minute "61": 61 is out of range; use 0-59
	// etl.yaml:9:12: spec.timeout: is the number 30; write the unit with it, such as 30s
	// etl.yaml:10:3: spec.retires: unknown field `retires`; did you mean `retry`?
}
