//! Files of a session's directory over HTTP, and no way out of it.

use reqwest::Method;
use reqwest::header::RANGE;
use serde_json::{Value, json};

use super::{Server, answer, with_model};

fn names(listing: &Value) -> Vec<(String, String)> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let entries = listing.as_array().unwrap().iter();
    entries
        .map(|it| (text(it, "name"), text(it, "kind")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_listed_read_and_removed() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    let files = format!("{session}/files");
    let put = server.request(Method::PUT, &format!("{files}/data/of%20mine/a.csv"));
    let (status, told) = answer(put.body("a,b\n1,2\n")).await;
    assert_eq!(
        (status, told),
        (201, json!({"path": "data/of mine/a.csv", "bytes": 8}))
    );
    assert_eq!(sponde.read("data/of mine/a.csv"), "a,b\n1,2\n");
    let read = server.request(Method::GET, &format!("{files}/data/of%20mine/a.csv"));
    let read = read.header(RANGE, "bytes=-4").send().await.unwrap();
    assert_eq!(
        (read.status().as_u16(), &read.headers()["content-type"]),
        (206, &"text/csv; charset=utf-8".parse().unwrap())
    );
    assert_eq!(read.text().await.unwrap(), "1,2\n");
    // A drop, as a browser sends it; a name with a path in it is only a name.
    let form = "--X\r\ncontent-disposition: form-data; name=f; filename=\"../../b.txt\"\r\n\r\nbee\r\n\
        --X\r\ncontent-disposition: form-data; name=g; filename=\"c.bin\"\r\n\r\n\x01\x02\r\n--X--\r\n";
    let drop = server.request(Method::POST, &format!("{files}?path=data"));
    let drop = drop
        .header("content-type", "multipart/form-data; boundary=X")
        .body(form);
    let (status, told) = answer(drop).await;
    assert_eq!(
        (status, told),
        (
            201,
            json!([{"name": "b.txt", "bytes": 3}, {"name": "c.bin", "bytes": 2}])
        )
    );
    let (_, listing) = server.get(&format!("{files}?path=data")).await;
    let expected = [
        ("b.txt", "file"),
        ("c.bin", "file"),
        ("of mine", "directory"),
    ];
    let expected = expected.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
    assert_eq!(names(&listing), expected);
    assert_eq!(listing[0]["bytes"], 3);
    let delete = |path: &str| answer(server.request(Method::DELETE, &format!("{files}/{path}")));
    assert_eq!(delete("data/of%20mine").await.0, 409, "it is not empty");
    assert_eq!(delete("data/of%20mine/a.csv").await.0, 204);
    assert_eq!(delete("data/of%20mine").await.0, 204);
    assert_eq!(delete("data/of%20mine").await.0, 404);
    assert_eq!(server.get(&format!("{files}/none")).await.0, 404);
    let put = server
        .request(Method::PUT, &format!("{files}/data"))
        .body("x");
    assert_eq!(answer(put).await.0, 409, "a directory is in its place");
    // One that breaks off leaves nothing.
    let broken = "--X\r\ncontent-disposition: form-data; name=f; filename=\"d.txt\"\r\n\r\nhalf";
    let drop = server.request(Method::POST, &files);
    let drop = drop
        .header("content-type", "multipart/form-data; boundary=X")
        .body(broken);
    assert_eq!(answer(drop).await.0, 400);
    let (_, listing) = server.get(&files).await;
    assert_eq!(
        names(&listing),
        [("data".to_owned(), "directory".to_owned())]
    );
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_leads_out_of_the_directory() {
    let (_model, sponde) = with_model([]).await;
    std::fs::create_dir(sponde.path("work")).unwrap();
    sponde.write("secret", "outside");
    std::os::unix::fs::symlink("../secret", sponde.path("work/file")).unwrap();
    std::os::unix::fs::symlink("..", sponde.path("work/dir")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", sponde.path("work/zero")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        sponde.path("work/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({ "directory": "work" })).await;
    let files = format!("{session}/files");
    for path in [
        "..%2fsecret",
        "%2e%2e%2fsecret",
        "dir%2fsecret",
        "dir/secret",
        "file",
        "dir",
        "zero",
        "pipe",
        "a%00b",
        "%2fetc%2fpasswd",
        "sub%2f..%2f..%2fsecret",
    ] {
        for method in [Method::GET, Method::PUT] {
            // A link in its place is replaced, which is no way out; a pipe too.
            if method == Method::PUT
                && matches!(path, "file" | "dir" | "zero" | "pipe" | "%2fetc%2fpasswd")
            {
                continue;
            }
            let request = server.request(method.clone(), &format!("{files}/{path}"));
            let (status, told) = answer(request.body("x")).await;
            assert!(
                matches!(status, 403 | 404),
                "{method} {path}: {status} {told}"
            );
        }
    }
    for path in ["..", "../", "dir", "dir/..", "%2e%2e", "work/../.."] {
        let (status, told) = server.get(&format!("{files}?path={path}")).await;
        assert!(matches!(status, 403 | 404), "{path}: {status} {told}");
    }
    // Byte for byte: no client in between tidies the path.
    let address = server.base.strip_prefix("http://").unwrap().to_owned();
    let head = format!(
        "GET {files}/../../../../../etc/passwd HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        server.token
    );
    let told = tokio::task::block_in_place(|| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    assert!(
        told.starts_with("HTTP/1.1 403") || told.starts_with("HTTP/1.1 404"),
        "{told}"
    );
    assert_eq!(sponde.read("secret"), "outside");
    // A link in the way of a file is replaced, never followed.
    let put = server
        .request(Method::PUT, &format!("{files}/file"))
        .body("inside");
    assert_eq!(answer(put).await.0, 201);
    assert_eq!(
        (sponde.read("secret"), sponde.read("work/file")),
        ("outside".to_owned(), "inside".to_owned())
    );
    server.end();
}
