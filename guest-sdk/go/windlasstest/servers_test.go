//go:build !wasip1

package windlasstest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"windlass.dev/windlass"
)

func TestATestAnswersWhatAGuestAsks(t *testing.T) {
	NewFleet(t).Serve(func(request windlass.HTTPRequest) windlass.HTTPResponse {
		if request.Method == "GET" {
			return windlass.HTTPResponse{Body: []byte(request.URL)}
		}
		header := windlass.HTTPHeader{"ETag": {request.Header.Get("content-type") + request.Header.Get("X-A")}}
		return windlass.HTTPResponse{Status: 201, Header: header, Body: request.Body}
	})
	got, err := windlass.HTTPGet("https://a.example.com/")
	if err != nil || got.Status != 200 || string(got.Body) != "https://a.example.com/" {
		t.Fatal(got, err)
	}
	given := windlass.HTTPHeader{"x-a": {"1"}}
	made, err := windlass.HTTPDo(windlass.HTTPRequest{Method: "POST", URL: "https://a.example.com/", Header: given, JSON: []int{1}})
	if err != nil || made.Success() != nil || made.Header.Get("etag") != "application/json1" || len(given) != 1 {
		t.Fatal(made, err, given)
	}
	var body []int
	if err := made.JSON(&body); err != nil || len(body) != 1 || body[0] != 1 {
		t.Error(body, err)
	}
	var other map[string]any
	if err := made.JSON(&other); err == nil || !strings.Contains(err.Error(), "the answer cannot be read") {
		t.Error(err)
	}
	own := windlass.HTTPHeader{"Content-Type": {"application/merge-patch+json"}}
	merged, err := windlass.HTTPDo(windlass.HTTPRequest{Method: "PATCH", Header: own, JSON: 1})
	if err != nil || merged.Header.Get("ETag") != "application/merge-patch+json" {
		t.Error(merged, err)
	}
	if _, err := windlass.HTTPDo(windlass.HTTPRequest{JSON: func() {}}); !windlass.IsInvalid(err) {
		t.Error(err)
	}
}

func TestWithoutAnswersEveryCallIsDenied(t *testing.T) {
	for name, host := range map[string]func(testing.TB){
		"a fleet":  func(t testing.TB) { NewFleet(t) },
		"a script": func(t testing.TB) { New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			host(t)
			_, err := windlass.HTTPGet("https://a.example.com/")
			if !windlass.IsDenied(err) || !strings.Contains(err.Error(), "Fleet.Serve") {
				t.Error(err)
			}
		})
	}
}

func TestAScriptAnswersToo(t *testing.T) {
	New(t).Serve(func(windlass.HTTPRequest) windlass.HTTPResponse { return windlass.HTTPResponse{Status: 404} })
	if got, err := windlass.HTTPGet("https://a.example.com/"); err != nil || got.Status != 404 {
		t.Error(got, err)
	}
}

func TestAStatusBecomesAnErrorWhereTheGuestWantsOne(t *testing.T) {
	for _, status := range []int{200, 204, 299} {
		if err := (&windlass.HTTPResponse{Status: status}).Success(); err != nil {
			t.Error(err)
		}
	}
	answer := windlass.HTTPResponse{Status: 429, Header: windlass.HTTPHeader{"Retry-After": {"7"}}, Body: []byte(" too many\n")}
	var refused *windlass.HTTPStatusError
	if err := answer.Success(); !errors.As(err, &refused) || err.Error() != "the server answers 429: too many" {
		t.Fatal(err)
	}
	if refused.RetryAfter == nil || *refused.RetryAfter != 7*time.Second {
		t.Error(refused.RetryAfter)
	}
	answer.Header.Set("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")
	if err := answer.Success(); !errors.As(err, &refused) || refused.RetryAfter != nil || len(answer.Header) != 1 {
		t.Error(err, answer.Header)
	}
	for _, body := range []string{strings.Repeat("ä", 300), "x" + strings.Repeat("ä", 300)} {
		said := (&windlass.HTTPResponse{Status: 500, Body: []byte(body)}).Success().Error()
		if len(said) > 250 || strings.Contains(said, "\ufffd") {
			t.Error(said)
		}
	}
	if said := (&windlass.HTTPResponse{Status: 500}).Success().Error(); said != "the server answers 500" {
		t.Error(said)
	}
}
