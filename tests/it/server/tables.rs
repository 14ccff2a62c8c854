//! Variables, completion and tables, asked of the kernel beside the cells.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Server, answer, with_model};

#[expect(clippy::too_many_lines, reason = "one kernel is asked many things")]
#[tokio::test(flavor = "multi_thread")]
async fn a_large_frame_is_looked_into_a_window_at_a_time() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    let code = "import pandas as pd, numpy as np, polars as pl\n\
        df = pd.DataFrame({'n': np.arange(1_000_000), 'half': np.arange(1_000_000) / 2, 'c': ['x', 'Yy'] * 500_000})\n\
        odd = pd.DataFrame({'a': [2**60, None, 'text', 1.5], 'd': pd.to_datetime(['2020-01-01', None, '2021-02-03', '2022-01-01'])}, index=['i', 'j', 'k', 'l'])\n\
        small = pl.DataFrame({'a': [3, 1, None], 't': ['q', 'w', '<b>']})\n\
        import pyarrow as pa\nlazy = small.lazy().with_columns(b=pl.col('a') * 2)\narrow = pa.table({'a': [3, 1, None], 't': ['q', 'w', '<b>']})\n\
        word = 'hello'\nplain = pd.DataFrame({'a': [3, 1, None], 't': ['q', 'w', '<b>']})\nprint('made')";
    server.run(&session, code).await;
    let (_, variables) = server.get(&format!("{session}/variables")).await;
    let variables = variables.as_array().unwrap();
    let find = |name: &str| {
        let found = variables.iter().find(|it| it["name"] == name);
        let mut found = found.unwrap().clone();
        // How much it is depends on the versions.
        assert!(
            found
                .as_object_mut()
                .unwrap()
                .remove("bytes")
                .unwrap()
                .as_u64()
                > Some(40)
        );
        found
    };
    assert_eq!(
        find("df"),
        json!({"name": "df", "type": "pandas.DataFrame", "shape": "1000000 x 3", "size": null, "preview": "n, half, c"})
    );
    assert_eq!(
        find("word"),
        json!({"name": "word", "type": "str", "shape": null, "size": 5, "preview": "'hello'"})
    );
    let frames = format!("{session}/frames");
    let window = |query: &str| {
        let path = format!("{frames}/df?{query}");
        let server = &server;
        async move { server.get(&path).await.1 }
    };
    let top = window("limit=2&sort=half&descending=true").await;
    assert_eq!(
        top,
        json!({"columns": [{"name": "n", "type": "int64"}, {"name": "half", "type": "float64"}, {"name": "c", "type": "str"}],
            "rows": [[999_999, 499_999.5, "Yy"], [999_998, 499_999.0, "x"]], "total": 1_000_000, "offset": 0})
    );
    let found = window("filter=yY&offset=3&limit=1").await;
    assert_eq!(
        (&found["rows"], &found["total"]),
        (&json!([[7, 3.5, "Yy"]]), &json!(500_000))
    );
    let number = window("filter=77&limit=9").await;
    assert_eq!(number["rows"], json!([[77, 38.5, "Yy"], [154, 77.0, "x"]]));
    let behind = window("offset=5000000").await;
    assert_eq!(
        (&behind["rows"], &behind["offset"]),
        (&json!([]), &json!(1_000_000))
    );
    assert_eq!(
        window("limit=100000").await["rows"]
            .as_array()
            .unwrap()
            .len(),
        500
    );
    let (_, profile) = server.get(&format!("{frames}/df/columns/half")).await;
    assert_eq!(
        (
            &profile["count"],
            &profile["missing"],
            &profile["min"],
            &profile["max"],
            &profile["mean"]
        ),
        (
            &json!(1_000_000),
            &json!(0),
            &json!(0.0),
            &json!(499_999.5),
            &json!(249_999.75)
        )
    );
    assert_eq!(profile["histogram"].as_array().unwrap().len(), 20);
    let (_, profile) = server.get(&format!("{frames}/df/columns/c")).await;
    assert_eq!(
        profile,
        json!({"count": 1_000_000, "missing": 0, "distinct": 2,
            "top": [{"value": "x", "count": 500_000}, {"value": "Yy", "count": 500_000}]})
    );
    let (_, odd) = server.get(&format!("{frames}/odd?sort=a")).await;
    let names: Vec<&Value> = odd["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, [&json!("index"), &json!("a"), &json!("d")]);
    assert!(
        odd["rows"].as_array().unwrap().contains(&json!([
            "i",
            "1152921504606846976",
            "2020-01-01 00:00:00"
        ])),
        "{odd}"
    );
    let (_, small) = server
        .get(&format!("{frames}/small?sort=a&filter=%3Cb"))
        .await;
    assert_eq!(small["rows"], json!([[null, "<b>"]]));
    let (_, profile) = server.get(&format!("{frames}/small/columns/a")).await;
    assert_eq!(
        (&profile["missing"], &profile["min"], &profile["mean"]),
        (&json!(1), &json!(1), &json!(2.0))
    );
    // What computes nothing yet, and what is not of pandas.
    let about = |name: &str| {
        let it = find(name);
        (
            it["type"].clone(),
            it["shape"].clone(),
            it["preview"].clone(),
        )
    };
    assert_eq!(
        about("lazy"),
        (json!("polars.LazyFrame"), json!("? x 3"), json!("a, t, b"))
    );
    assert_eq!(
        about("arrow"),
        (json!("pyarrow.Table"), json!("3 x 2"), json!("a, t"))
    );
    for (query, rows) in [
        ("lazy?limit=1&offset=1", json!([[1, "w", 2]])),
        ("lazy?sort=b&filter=W", json!([[1, "w", 2]])),
        ("arrow?offset=1", json!([[1, "w"], [null, "<b>"]])),
        ("arrow?sort=t&filter=q", json!([[3.0, "q"]])),
    ] {
        let (_, told) = server.get(&format!("{frames}/{query}")).await;
        assert_eq!(told["rows"], rows, "{query}: {told}");
    }
    for (name, total) in [("lazy", 3), ("arrow", 3)] {
        let (_, told) = server.get(&format!("{frames}/{name}?limit=1")).await;
        assert_eq!(told["total"], json!(total), "{told}");
        let (_, profile) = server.get(&format!("{frames}/{name}/columns/a")).await;
        assert_eq!(
            (&profile["missing"], &profile["mean"]),
            (&json!(1), &json!(2.0)),
            "{name}: {profile}"
        );
        let csv = server.request(
            Method::GET,
            &format!("{frames}/{name}/export?format=parquet"),
        );
        let csv = csv.send().await.unwrap().bytes().await.unwrap();
        assert!(csv.starts_with(b"PAR1"), "{name}");
    }
    for (path, status, reason) in [
        ("none", 404, "no_variable"),
        ("word", 400, "no_frame"),
        ("df?sort=none", 404, "no_column"),
        ("df/columns/none", 404, "no_column"),
        ("df.T", 400, "bad_request"),
        ("__import__('os')", 400, "bad_request"),
        ("df/export?format=exe", 400, "bad_request"),
    ] {
        let (told, answer) = server.get(&format!("{frames}/{path}")).await;
        assert_eq!(
            (told, &answer["error"]["reason"]),
            (status, &json!(reason)),
            "{path}: {answer}"
        );
    }
    let parquet = format!("{frames}/small/export?format=parquet");
    let parquet = server.request(Method::GET, &parquet).send().await.unwrap();
    assert!(parquet.bytes().await.unwrap().starts_with(b"PAR1"));
    let csv = server.request(Method::GET, &format!("{frames}/df/export?format=csv"));
    let csv = csv.send().await.unwrap();
    assert!(
        csv.headers()["content-disposition"]
            .to_str()
            .unwrap()
            .ends_with("df.csv")
    );
    let csv = csv.text().await.unwrap();
    assert_eq!(
        (csv.lines().count(), csv.lines().last().unwrap()),
        (1_000_001, "999999,499999.5,Yy")
    );
    let parquet = server.request(
        Method::GET,
        &format!("{frames}/small/export?format=parquet"),
    );
    let parquet = parquet.send().await.unwrap().bytes().await.unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    // pandas writes the first, polars the others.
    for name in ["plain", "small", "lazy"] {
        let xlsx = format!("{frames}/{name}/export?format=xlsx");
        let xlsx = server.request(Method::GET, &xlsx).send().await.unwrap();
        let xlsx = xlsx.bytes().await.unwrap();
        assert!(xlsx.starts_with(b"PK\x03\x04"), "{name}: {xlsx:?}");
        sponde.write(&format!("{name}.xlsx"), &xlsx);
    }
    // All are what pandas reads.
    sponde.write("small.parquet", &parquet);
    let read = "import sys, json, pandas as pd\n\
        print(json.dumps([json.loads(frame.to_json(orient='split', index=False)) for frame in (pd.read_parquet('small.parquet'), *(pd.read_excel(f'{name}.xlsx')[['a', 't']] for name in ('plain', 'small', 'lazy')))]))";
    let output = std::process::Command::new(crate::support::python_prefix().join("bin/python"))
        .args(["-c", read])
        .current_dir(sponde.path(""))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let whole = json!({"columns": ["a", "t"], "data": [[3, "q"], [1, "w"], [null, "<b>"]]});
    let numbers = json!({"columns": ["a", "t"], "data": [[3.0, "q"], [1.0, "w"], [null, "<b>"]]});
    let back: Value = serde_json::from_slice(&output.stdout).unwrap();
    for frame in back.as_array().unwrap() {
        assert!(*frame == whole || *frame == numbers, "{frame}");
    }
    let (_, completions) = server
        .get(&format!("{session}/complete?code=pd.read_cs&cursor=10"))
        .await;
    assert_eq!(
        completions,
        json!({"matches": [".read_csv"], "start": 2, "end": 10})
    );
    // Nothing of this is in the person's variables or history.
    let cell = server
        .run(
            &session,
            "print([n for n in dir() if 'sponde' in n], len(In))",
        )
        .await;
    let (_, text) = server
        .get(&format!("{session}/cells/{cell}/outputs/0/text%2Fplain"))
        .await;
    assert_eq!(text, json!("[] 3\n"));
    let (_, kernels) = server.get("/api/kernels").await;
    assert!(
        kernels
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["name"] == "python3" && it["language"] == "python"),
        "{kernels}"
    );
    let (_, models) = server.get("/api/models").await;
    assert_eq!(models[0], json!({"name": "gpt-4o", "source": "configured"}));
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_runs_is_not_disturbed() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    let made = "import pandas as pd, time\ndf = pd.DataFrame({'a': [1]})";
    server.run(&session, made).await;
    let mut events = server.events(&session, "").await;
    let run = json!({ "command": "run", "code": "print('begun', flush=True); time.sleep(600)" });
    assert_eq!(server.command(&session, &run).await.0, 202);
    events
        .until(|item| item["edit"]["emit"]["output"]["stream"]["text"] == "begun\n")
        .await;
    for path in [
        "frames/df",
        "frames/df/columns/a",
        "frames/df/export?format=csv",
        "complete?code=d",
    ] {
        let (status, told) = server.get(&format!("{session}/{path}")).await;
        assert_eq!(
            (status, &told["error"]["reason"]),
            (409, &json!("busy")),
            "{path}"
        );
    }
    // ipykernel answers this beside the cell.
    let (status, variables) = server.get(&format!("{session}/variables")).await;
    assert!(
        status == 200 && variables.to_string().contains("pandas.DataFrame"),
        "{variables}"
    );
    assert_eq!(
        server
            .command(&session, &json!({"command": "submit", "text": "x"}))
            .await
            .0,
        409
    );
    assert_eq!(
        server
            .command(&session, &json!({"command": "interrupt"}))
            .await
            .0,
        202
    );
    let ended = events.until(|item| item["event"] == "turn_finished").await;
    assert!(json!(ended).to_string().contains("KeyboardInterrupt"));
    assert_eq!(
        server.get(&format!("{session}/frames/df")).await.1["total"],
        1
    );
    let request = server.request(Method::GET, &format!("{session}/variables?language=cobol"));
    assert_eq!(answer(request).await.0, 409);
    server.end();
}
