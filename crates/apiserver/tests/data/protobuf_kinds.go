// Writes protobuf_kinds.txt: for every kind that is named (v1/Pod, apps/v1/Deployment, …) one object with all its
// fields filled, in protobuf (hex) and in JSON. In crates/control-plane/go/kubernetes, whose modules it uses:
//
//	go run ../../../apiserver/tests/data/protobuf_kinds.go KIND… > ../../../apiserver/tests/data/protobuf_kinds.txt

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

type filler struct {
	n       int
	full    bool
	parents []reflect.Type
}

func (f *filler) next() int { f.n++; return f.n }

func (f *filler) fill(v reflect.Value) {
	t := v.Type()
	switch t {
	case reflect.TypeFor[metav1.Time]():
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(int64(1700000000+f.next()), 0).UTC())))
		return
	case reflect.TypeFor[metav1.MicroTime]():
		v.Set(reflect.ValueOf(metav1.NewMicroTime(time.Unix(int64(1700000000+f.next()), 123456000).UTC())))
		return
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse(fmt.Sprintf("%dm", f.next()*1000+1))))
		return
	case reflect.TypeFor[intstr.IntOrString]():
		if n := f.next(); n%2 == 0 {
			v.Set(reflect.ValueOf(intstr.FromInt32(int32(n))))
		} else {
			v.Set(reflect.ValueOf(intstr.FromString(fmt.Sprintf("%d%%", n))))
		}
		return
	case reflect.TypeFor[runtime.RawExtension]():
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Raw","n":%d}`, f.next()))}))
		return
	case reflect.TypeFor[apiextensions.JSON]():
		v.Set(reflect.ValueOf(apiextensions.JSON{Raw: []byte(fmt.Sprintf(`{"n":%d}`, f.next()))}))
		return
	case reflect.TypeFor[metav1.FieldsV1]():
		v.Set(reflect.ValueOf(*metav1.NewFieldsV1(fmt.Sprintf(`{"f:a%d":{}}`, f.next()))))
		return
	case reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray](), reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](), reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():
		f.either(v)
		return
	case reflect.TypeFor[corev1.PodTemplateSpec]():
		if !f.full {
			v.Set(reflect.ValueOf(corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": fmt.Sprint(f.next())}, CreationTimestamp: metav1.Unix(1700000000, 0)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: fmt.Sprint("c", f.next()), Image: "i"}}},
			}))
			return
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		if f.count(t.Elem()) > 0 {
			return
		}
		v.Set(reflect.New(t.Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		f.parents = append(f.parents, t)
		for i := range t.NumField() {
			if t.Field(i).Type != reflect.TypeFor[metav1.TypeMeta]() && t.Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
		f.parents = f.parents[:len(f.parents)-1]
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(fmt.Sprintf("bytes %d \xff", f.next())))
			return
		}
		if f.count(t.Elem()) > 0 {
			return
		}
		two := 1
		if t.Elem().Kind() != reflect.Struct {
			two = 2
		}
		v.Set(reflect.MakeSlice(t, two, two))
		for i := range two {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		if f.count(t.Elem()) > 0 {
			return
		}
		v.Set(reflect.MakeMap(t))
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprintf("s%dé", f.next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.next()) * -7)
		if t.Kind() == reflect.Int64 {
			v.SetInt(int64(f.n) << 33)
		}
	case reflect.Float64:
		v.SetFloat(float64(f.next()) + 0.5)
	default:
		panic(t)
	}
}

// The places of a schema that hold one of two things: a schema in the first, the other thing further in.
func (f *filler) either(v reflect.Value) {
	n := f.next()
	switch t := v.Addr().Interface().(type) {
	case *apiextensions.JSONSchemaPropsOrArray:
		if f.count(reflect.TypeFor[apiextensions.JSONSchemaProps]()) > 1 {
			t.JSONSchemas = []apiextensions.JSONSchemaProps{{Type: fmt.Sprint("t", n)}, {Format: "f"}}
		} else {
			t.Schema = &apiextensions.JSONSchemaProps{Title: fmt.Sprint("t", n)}
		}
	case *apiextensions.JSONSchemaPropsOrBool:
		t.Allows = true
		if n%2 == 0 {
			t.Schema = &apiextensions.JSONSchemaProps{Title: fmt.Sprint("t", n)}
		}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		if n%2 == 0 {
			t.Schema = &apiextensions.JSONSchemaProps{Title: fmt.Sprint("t", n)}
		} else {
			t.Property = []string{fmt.Sprint("p", n), "q"}
		}
	}
}

func (f *filler) count(t reflect.Type) (count int) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, parent := range f.parents {
		if parent == t {
			count++
		}
	}
	return
}

func main() {
	all := runtime.NewScheme()
	if err := scheme.AddToScheme(all); err != nil {
		panic(err)
	}
	if err := apiextensions.AddToScheme(all); err != nil {
		panic(err)
	}
	proto := protobuf.NewSerializer(all, all)
	plain := json.NewSerializerWithOptions(json.DefaultMetaFactory, all, all, json.SerializerOptions{})
	for _, name := range os.Args[1:] {
		at := strings.LastIndex(name, "/")
		gv, err := schema.ParseGroupVersion(name[:at])
		if err != nil {
			panic(err)
		}
		gvk := gv.WithKind(name[at+1:])
		object, err := all.New(gvk)
		if err != nil {
			panic(err)
		}
		f := filler{full: gvk.Kind == "Pod"}
		f.fill(reflect.ValueOf(object).Elem())
		object.GetObjectKind().SetGroupVersionKind(gvk)
		var bin, text bytes.Buffer
		if err := proto.Encode(object, &bin); err != nil {
			panic(err)
		}
		if err := plain.Encode(object, &text); err != nil {
			panic(err)
		}
		fmt.Printf("%s\t%s\n", hex.EncodeToString(bin.Bytes()), strings.TrimSpace(text.String()))
	}
}
