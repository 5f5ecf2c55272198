// Prints ../dashboard.json: the panels of panels.go, built with Grafana's own types, which refuse what its schema does not have.
//
//	go run . >../dashboard.json
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const about = `What a fleet of Windlass does. Each panel says what it shows and what to do.
Load the rules of monitoring/alerts.yaml as well: panels read what they record.`

// The chart replaces it as in the alerts.
const runbook = "https://windlass.dev/docs/runbook"

// Prometheus is the one that the variable names.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// A panel's data and its look.
type panel struct {
	title string
	// What it shows, and what to do.
	tells   string
	unit    string
	queries []query
	look    look
}

type query struct{ expr, legend string }

type look int

const (
	lines look = iota
	// Lines on top of each other.
	stacked
	// Lines of a part of a whole, from 0 to 1.
	share
	// A number, good at 0.
	problems
	// A number, bad at 0.
	needed
	// Rows, of the labels.
	rows
	// Rows, of the labels and the value.
	valued
)

type row struct {
	title  string
	panels []panel
}

func main() {
	built, err := fleet().Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The builder of links would hide it in a menu.
	built.Links = []dashboard.DashboardLink{{
		Title: "Runbook", Type: dashboard.DashboardLinkTypeLink, Icon: "doc", Url: cog.ToPtr(runbook), TargetBlank: true, Tags: []string{},
	}}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(built); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fleet() *dashboard.DashboardBuilder {
	board := dashboard.NewDashboardBuilder("Windlass").
		Uid("windlass").
		Description(about).
		Tags([]string{"windlass", "kubernetes"}).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Time("now-6h", "now").
		Refresh("30s").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(choice("namespace", "Namespace", "windlass_configuration_problems")).
		WithVariable(choice("job", "Release (job)", `windlass_configuration_problems{namespace=~"$namespace"}`)).
		WithVariable(choice("tenant", "Tenant", inRelease("windlass_tenant_memory_bytes"))).
		WithVariable(choice("reconciler", "Reconciler", `windlass_guest_idle_instances{`+release+`, tenant=~"$tenant"}`)).
		WithVariable(choice("cluster", "Cluster", inRelease("windlass_cluster_ready")))
	id := uint32(1)
	for _, row := range boardRows {
		board.WithRow(dashboard.NewRowBuilder(row.title).Id(id))
		id++
		for _, panel := range row.panels {
			board.WithPanel(panel.at(id))
			id++
		}
	}
	return board
}

// A variable of a label's values, all of them at first. Series without the label are among all.
func choice(name, label, series string) *dashboard.QueryVariableBuilder {
	values := fmt.Sprintf("label_values(%s, %s)", series, name)
	all := dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}
	text := dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source).
		Query(dashboard.StringOrMap{String: &values}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{Selected: cog.ToPtr(true), Text: text, Value: all})
}

func (p panel) at(id uint32) cog.Builder[dashboard.Panel] {
	switch p.look {
	case problems, needed:
		return p.number(id)
	case rows, valued:
		return p.table(id)
	default:
		return p.graph(id)
	}
}

func (p panel) graph(id uint32) *timeseries.PanelBuilder {
	legend := common.NewVizLegendOptionsBuilder().
		ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)
	graph := timeseries.NewPanelBuilder().
		Id(id).Title(p.title).Description(p.tells).Unit(p.unit).Min(0).
		Datasource(source).
		Span(8).Height(8).
		Legend(legend).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		FillOpacity(10)
	switch p.look {
	case stacked:
		graph.FillOpacity(40).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	case share:
		graph.Max(1)
	}
	for at, query := range p.queries {
		graph.WithTarget(asked(at, query).Range())
	}
	return graph
}

func (p panel) number(id uint32) *stat.PanelBuilder {
	none, some := "green", "red"
	if p.look == needed {
		none, some = some, none
	}
	number := stat.NewPanelBuilder().
		Id(id).Title(p.title).Description(p.tells).Unit(p.unit).
		Datasource(source).
		Span(4).Height(4).
		Orientation(common.VizOrientationAuto).
		GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		Thresholds(dashboard.NewThresholdsConfigBuilder().
			Mode(dashboard.ThresholdsModeAbsolute).
			Steps([]dashboard.Threshold{{Color: none}, {Value: cog.ToPtr(1.0), Color: some}}))
	for at, query := range p.queries {
		number.WithTarget(asked(at, query).Instant())
	}
	return number
}

func (p panel) table(id uint32) *table.PanelBuilder {
	hidden := map[string]bool{"Time": true}
	if p.look == rows {
		hidden["Value"] = true
	}
	list := table.NewPanelBuilder().
		Id(id).Title(p.title).Description(p.tells).Unit(p.unit).
		Datasource(source).
		Span(8).Height(8).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{"excludeByName": hidden}})
	for at, query := range p.queries {
		list.WithTarget(asked(at, query).Instant().Format(prometheus.PromQueryFormatTable))
	}
	return list
}

func asked(at int, query query) *prometheus.DataqueryBuilder {
	asked := prometheus.NewDataqueryBuilder().RefId(string(rune('A' + at))).Expr(query.expr)
	if query.legend != "" {
		asked.LegendFormat(query.legend)
	}
	return asked
}
