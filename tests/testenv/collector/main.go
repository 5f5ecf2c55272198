// A collector of traces: OTLP comes in over gRPC and HTTP, and each batch goes to standard output as a line of JSON.
package main

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// What prints.
func printer() exporter.Factory {
	defaults := func() component.Config { return &struct{}{} }
	make := func(ctx context.Context, settings exporter.Settings, config component.Config) (exporter.Traces, error) {
		return exporterhelper.NewTraces(ctx, settings, config, show)
	}
	return exporter.NewFactory(component.MustNewType("print"), defaults,
		exporter.WithTraces(make, component.StabilityLevelStable))
}

func show(_ context.Context, traces ptrace.Traces) error {
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err == nil {
		_, err = fmt.Println(string(text))
	}
	return err
}

func factories() (otelcol.Factories, error) {
	otlp, print := otlpreceiver.NewFactory(), printer()
	return otelcol.Factories{
		Receivers: map[component.Type]receiver.Factory{otlp.Type(): otlp},
		Exporters: map[component.Type]exporter.Factory{print.Type(): print},
		Telemetry: otelconftelemetry.NewFactory(),
	}, nil
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				DefaultScheme:     "file",
				ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
