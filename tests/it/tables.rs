//! What the model is told about a table with `-f`, held against pandas: the line to load it must work as it stands, and
//! what is said of the columns must be what pandas then finds.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use sponde::agent::facts::{self, Language};

use crate::support::python_prefix;

/// Runs each line of stdin as `read_csv` and prints what came of it.
const READ: &str = r#"
import sys, warnings
import pandas as pd
warnings.simplefilter("error")
for line in sys.stdin.read().splitlines():
    df = eval(line)
    types = {"int64": "int", "float64": "float", "str": "text", "object": "text"}
    def kind(dtype):
        return "date" if str(dtype).startswith("datetime64") else types.get(str(dtype), str(dtype))
    columns = ", ".join(f"{name!r}: {kind(dtype)}" for name, dtype in df.dtypes.items())
    print(f"{len(df)} rows; {columns}; {[df[name].iloc[-1] for name in df]!r}".encode("unicode_escape").decode())
"#;

/// The facts about each file, and what pandas makes of the line in them.
fn told_and_read(files: &[(&str, &[u8])]) -> Vec<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        told.push(facts::files(&[&path], dir.path(), Language::Python).unwrap());
    }
    let lines: Vec<String> = told
        .iter()
        .map(|words| {
            let first = words.lines().next().unwrap();
            first.split_once("Load with df = ").unwrap().1.to_owned() + "\n"
        })
        .collect();
    std::fs::write(dir.path().join("lines"), lines.concat()).unwrap();
    let output = Command::new(python_prefix().join("bin/python"))
        .args(["-c", READ])
        .current_dir(dir.path())
        .stdin(std::fs::File::open(dir.path().join("lines")).unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", lines.concat());
    let read = String::from_utf8(output.stdout).unwrap();
    told.into_iter()
        .zip(read.lines().map(str::to_owned))
        .collect()
}

/// Name and type of each column as the model is told, in the words of [`READ`].
fn columns(told: &str) -> String {
    let columns: Vec<String> = told
        .lines()
        .skip(1)
        .map(|line| {
            let (name, words) =
                line.trim_start_matches("- ")
                    .rsplit_once(": ")
                    .map_or((line, ""), |_| {
                        let at = ["int,", "float,", "date,", "text,", "empty"]
                            .iter()
                            .filter_map(|kind| line.find(&format!(": {kind}")))
                            .min()
                            .unwrap();
                        (&line[2..at], &line[at + 2..])
                    });
            let (name, kind) = (name.trim_matches('"'), words.split(',').next().unwrap());
            let quoted = if name.parse::<u8>().is_ok() {
                name.to_owned()
            } else {
                format!("'{name}'")
            };
            format!("{quoted}: {kind}")
        })
        .collect();
    columns.join(", ")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn the_line_that_loads_a_table_works_in_pandas() {
    let utf_16: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain("city,n\nKöln,1\n".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let late = [
        b"a,b\n".to_vec(),
        "x,1\n".repeat(70_000).into_bytes(),
        b"M\xfcnchen,2\n".to_vec(),
    ]
    .concat();
    let cases: Vec<(&str, &[u8], &str)> = vec![
        (
            "plain.csv",
            b"day,city,n\n2020-01-02,Rome,1\n2020-02-01,Oslo,2\n",
            "2 rows; 'day': date, 'city': text, 'n': int; [Timestamp('2020-02-01 00:00:00'), 'Oslo', np.int64(2)]",
        ),
        (
            "latin.csv",
            b"stadt;einwohner;h\xf6he\nK\xf6ln;1073096;37,5\nM\xfcnchen;1512491;519,25\n",
            r"2 rows; 'stadt': text, 'einwohner': int, 'h\xf6he': float; ['M\xfcnchen', np.int64(1512491), np.float64(519.25)]",
        ),
        (
            "late.csv",
            &late,
            r"70001 rows; 'a': text, 'b': int; ['M\xfcnchen', np.int64(2)]",
        ),
        (
            "utf16.csv",
            &utf_16,
            r"1 rows; 'city': text, 'n': int; ['K\xf6ln', np.int64(1)]",
        ),
        (
            "mark.csv",
            b"\xef\xbb\xbfa,b\n1,x\n",
            "1 rows; 'a': int, 'b': text; [np.int64(1), 'x']",
        ),
        (
            "thousands.csv",
            b"id;amount;date\n7;1.234,50;31.12.2020\n8;-12,00;01.02.2021\n",
            "2 rows; 'id': int, 'amount': float, 'date': date; [np.int64(8), np.float64(-12.0), Timestamp('2021-02-01 00:00:00')]",
        ),
        (
            "addresses.csv",
            b"host;load\n192.168.1.1;1.000,5\n10.0.0.1;2,5\n",
            "2 rows; 'host': text, 'load': float; ['10.0.0.1', np.float64(2.5)]",
        ),
        (
            "us.csv",
            b"when,pay\n12/31/2020,\"1,234.50\"\n01/02/2021,12\n",
            "2 rows; 'when': date, 'pay': float; [Timestamp('2021-01-02 00:00:00'), np.float64(12.0)]",
        ),
        (
            "uk.csv",
            b"when,iso,pay\n31/12/2020,2020-01-02,1\n01/02/2021,2020-03-04,2\n",
            "2 rows; 'when': date, 'iso': date, 'pay': int; [Timestamp('2021-02-01 00:00:00'), Timestamp('2020-03-04 00:00:00'), np.int64(2)]",
        ),
        (
            "us-iso.csv",
            b"when,iso,uk\n12/31/2020,2020-01-02,13/1/2020\n1/2/2021,2020-03-04,1/2/2020\n",
            "2 rows; 'when': date, 'iso': date, 'uk': date; [Timestamp('2021-01-02 00:00:00'), Timestamp('2020-03-04 00:00:00'), Timestamp('2020-02-01 00:00:00')]",
        ),
        (
            "comments.csv",
            b"# logger 7, Rome\n# units: m, s\ntime,depth\n1,2.5\n# rebooted\n2,3.5\n",
            "2 rows; 'time': int, 'depth': float; [np.int64(2), np.float64(3.5)]",
        ),
        (
            "colours.csv",
            b"# palette\nname,hex\nred,#ff0000\nblue,#0000ff\n",
            "2 rows; 'name': text, 'hex': text; ['blue', '#0000ff']",
        ),
        (
            "preamble.csv",
            b"Weather export\nStation: Oslo\n\nday\ttemp\n1\t-2.5\n2\t3\n",
            "2 rows; 'day': int, 'temp': float; [np.int64(2), np.float64(3.0)]",
        ),
        (
            "savetxt.csv",
            b"# t,v\n1,2.5\n2,3\n",
            "2 rows; '# t': int, 'v': float; [np.int64(2), np.float64(3.0)]",
        ),
        (
            "bare.csv",
            b"1,2.5\n3,4\n",
            "2 rows; 0: int, 1: float; [np.int64(3), np.float64(4.0)]",
        ),
        (
            "ends.csv",
            b"a,b\n1,x,\n2,y,\n",
            "2 rows; 'a': int, 'b': text; [np.int64(2), 'y']",
        ),
        (
            "names.csv",
            b"a,b\nr1,1,x\nr2,2,y\n",
            "2 rows; 'a': int, 'b': text; [np.int64(2), 'y']",
        ),
        (
            "long.csv",
            b"a,b\n1,x\n2,y,z\n3,w\n",
            "2 rows; 'a': int, 'b': text; [np.int64(3), 'w']",
        ),
        (
            "zip.csv",
            b"zip, id\n00123, 1\n99999, 2\n",
            "2 rows; 'zip': text, 'id': int; ['99999', np.int64(2)]",
        ),
        (
            "twice.csv",
            b"a,a,\n1,2,x\n",
            "1 rows; 'a': int, 'a.1': int, 'Unnamed: 2': text; [np.int64(1), np.int64(2), 'x']",
        ),
        (
            "pipe.tsv",
            b"a|b\n1|x\n2|y\n",
            "2 rows; 'a': int, 'b': text; [np.int64(2), 'y']",
        ),
        (
            "mac.csv",
            b"a,b\r1,x\r2,y\r",
            "2 rows; 'a': int, 'b': text; [np.int64(2), 'y']",
        ),
        (
            "o'brien \"x\"\n\x1b.csv",
            b"a,b\n1,x\n",
            "1 rows; 'a': int, 'b': text; [np.int64(1), 'x']",
        ),
        (
            "mixed.csv",
            b"day,n\n2020-01-02,1\n2020-01-02 03:04,2\n",
            "2 rows; 'day': text, 'n': int; ['2020-01-02 03:04', np.int64(2)]",
        ),
    ];
    let files: Vec<(&str, &[u8])> = cases.iter().map(|case| (case.0, case.1)).collect();
    for ((told, read), (name, _, expected)) in told_and_read(&files).into_iter().zip(&cases) {
        assert_eq!(read, *expected, "{name}\n{told}");
        let told_columns = columns(&told).replace('ö', r"\xf6");
        assert!(
            read.contains(&format!("; {told_columns}; ")),
            "{told_columns}\n{read}"
        );
    }
}

#[test]
fn a_name_that_is_not_utf_8_opens() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.csv"));
    std::fs::write(&path, "a,b\n1,2\n").unwrap();
    let told = facts::files(&[Path::new(&path)], dir.path(), Language::Python).unwrap();
    let line = told.lines().next().unwrap().split_once("df = ").unwrap().1;
    let output = Command::new(python_prefix().join("bin/python"))
        .args(["-c", &format!("import pandas as pd\nprint({line}.shape)")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "(1, 2)\n");
}

/// 33 MB, of which the first 32 MiB are read.
#[test]
fn what_is_said_of_the_first_rows_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.csv");
    let mut text = "n,note,x\n".to_owned();
    for n in 0..33_000 {
        writeln!(text, "{n},{},0.123456789012345", "x".repeat(1_000)).unwrap();
    }
    // Nothing of this is in the first 32 MiB.
    text.push_str("900000,M,7\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"1,M\xfcnchen,1\n");
    std::fs::write(&path, bytes).unwrap();
    let told = facts::files(&[&path], dir.path(), Language::Python).unwrap();
    let first = told.lines().next().unwrap();
    assert!(
        first.starts_with("File large.csv: about 33002 rows, here described by the first 32")
            && first.ends_with("Load with df = pd.read_csv('large.csv', encoding='cp1252')"),
        "{first}"
    );
    let columns: Vec<&str> = told.lines().skip(1).collect();
    assert!(
        columns[0].starts_with("- n: int, 0 to 32") && columns[0].ends_with(" (first rows)"),
        "{columns:?}"
    );
    assert_eq!(columns[2], "- x: float, 0.123457 to 0.123457 (first rows)");
}
