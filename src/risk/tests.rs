//! The corpus: dangerous code is found, with line and path, and its harmless twin is not.

use std::fmt::Write as _;
use std::path::Path;

use super::*;

/// The findings, one per line: line number, kind, and path or program.
fn found(code: &str, language: &str, memory: &mut Memory) -> Vec<String> {
    let site = Site {
        cwd: Path::new("/home/ada/project"),
        writable: &["/data/shared".into()],
        home: Some(Path::new("/home/ada")),
        is_old: &|path| path.ends_with("data.csv"),
    };
    let analysis = analyse(code, language, &site, memory);
    let findings = analysis.findings.into_iter().map(|finding| {
        let mut words = format!("{} {}", finding.line, finding.kind.name());
        match (&finding.path, finding.place, &finding.command) {
            (Some(path), ..) => write!(words, " {path}").unwrap(),
            (None, Some(Where::Unknown), _) => words.push_str(" ?"),
            (None, Some(place), _) => write!(words, " ({place:?})").unwrap(),
            (None, None, Some(command)) => write!(words, " {command}").unwrap(),
            (None, None, None) => {}
        }
        words
    });
    findings.collect()
}

/// Cases are separated by an empty line; expected findings follow `=>`.
fn check(corpus: &str, language: &str) {
    let mut wrong = String::new();
    let mut cases = 0;
    for case in corpus.split("\n\n") {
        let lines = case.lines().filter(|line| !line.starts_with("##"));
        let case: Vec<&str> = lines.collect();
        let case = case.join("\n");
        let Some((code, expected)) = case.split_once("\n=>") else {
            assert!(case.trim().is_empty(), "no `=>` in:\n{case}");
            continue;
        };
        cases += 1;
        let code = code.replace("~~~", "");
        let expected: Vec<&str> = expected
            .split([';', '\n'])
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        let found = found(&code, language, &mut Memory::default());
        if found != expected {
            writeln!(
                wrong,
                "{code}\n  found    {}\n  expected {}\n",
                found.join("; "),
                expected.join("; ")
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 60, "only {cases} cases");
}

#[test]
fn python() {
    check(
        include_str!("../../tests/fixtures/risk/python.txt"),
        "python",
    );
}

#[test]
fn shell() {
    check(include_str!("../../tests/fixtures/risk/shell.txt"), "bash");
}

#[test]
fn javascript() {
    let corpus = include_str!("../../tests/fixtures/risk/javascript.txt");
    check(corpus, "typescript");
}

#[test]
fn r() {
    check(include_str!("../../tests/fixtures/risk/r.txt"), "R");
}

#[test]
fn what_a_cell_imports_is_known_to_the_next() {
    let mut memory = Memory::default();
    let cell = "from os import remove as r\nimport shutil as s\n";
    assert_eq!(found(cell, "python", &mut memory), Vec::<String>::new());
    assert_eq!(
        found("r('a')\ns.rmtree('b')\n", "python", &mut memory),
        ["1 delete a", "2 delete b"]
    );
    assert_eq!(
        found("r('a')\n", "python", &mut Memory::default()),
        Vec::<String>::new()
    );
}

#[test]
fn languages_that_are_not_parsed_are_findings() {
    for (code, language, expected) in [
        ("rm(\"x\")", "julia", "1 unanalysed"),
        ("  ", "julia", ""),
        ("DROP TABLE x", "sql", "1 database"),
        ("SELECT 'a\nb';\nDROP TABLE x", "sql", "3 database"),
        ("x = 1", "Python", ""),
        ("x <- 1", "R", ""),
    ] {
        let found = found(code, language, &mut Memory::default()).join("; ");
        assert_eq!(found, expected, "{language}");
    }
}

#[test]
fn a_finding_says_where_it_is() {
    let site = Site {
        cwd: Path::new("/w"),
        writable: &[],
        home: None,
        is_old: &|_| false,
    };
    let code = "import shutil\nfor ü in 'ä':\n    'é'; shutil.rmtree('out',\n        True)\n";
    let analysis = analyse(code, "python", &site, &mut Memory::default());
    assert_eq!(
        analysis.findings,
        [Finding {
            kind: FindingKind::Delete,
            line: 3,
            column: 10,
            text: "shutil.rmtree('out',…".to_owned(),
            reason: "deletes files".to_owned(),
            path: Some("out".to_owned()),
            place: Some(Where::Workspace),
            command: None,
        }]
    );
}

#[test]
fn code_that_is_too_long_is_a_finding() {
    for language in ["python", "bash", "javascript", "r"] {
        let code = "x".repeat(Dialect::of(language).unwrap().longest() + 1);
        let found = found(&code, language, &mut Memory::default());
        assert_eq!(found, ["1 unanalysed"], "{language}");
    }
}

/// Realistic code, as long as a long notebook in one cell, is analysed to its end.
#[test]
fn long_cells_are_analysed() {
    let python = |n: usize| {
        format!(
            "def step_{n}(frame, limit={n}):\n    \"\"\"Groups and sums.\"\"\"\n    kept = frame[frame['x'] > limit].copy()\n    \
             kept['share'] = kept['x'] / kept['x'].sum()\n    print(f'{{len(kept)}} rows', kept.describe())\n    \
             return kept.groupby(['city', 'year'], as_index=False).agg(total=('x', 'sum'), mean=('y', 'mean'))\n\n"
        )
    };
    let shell = |n: usize| {
        format!("for file in data/{n}-*.csv; do\n  wc -l \"$file\" | awk '{{ print $1 }}'\ndone\n")
    };
    let javascript = |n: usize| {
        format!(
            "const rows{n} = data.filter((row) => row.x > {n}).map(({{ x, y }}) => ({{ x, y, z: `${{x}}/${{y}}` }}));\n"
        )
    };
    let r = |n: usize| {
        format!(
            "kept{n} <- data[data$x > {n}, c(\"x\", \"y\")]\nprint(summary(lm(y ~ x, data = kept{n})))\n"
        )
    };
    let long = |unit: &dyn Fn(usize) -> String, end: &str| {
        let mut code = String::new();
        for n in 0.. {
            let is_shell = end.starts_with("rm ");
            if code.len() > if is_shell { 30 << 10 } else { 100 << 10 } {
                break;
            }
            code.push_str(&unit(n));
        }
        code + end
    };
    let literal = |unit: &dyn Fn(usize) -> String| {
        format!("rows = [{}]\nimport os\nos.remove('x')\n", long(unit, ""))
    };
    for (language, code, line) in [
        ("python", long(&python, "import os\nos.remove('x')\n"), 0),
        ("bash", long(&shell, "rm x\n"), 0),
        (
            "javascript",
            long(&javascript, "require('fs').rmSync('x')\n"),
            0,
        ),
        ("r", long(&r, "unlink('x')\n"), 0),
        // Data in one line.
        (
            "python",
            literal(&|n| format!("({n}, 'name of {n}', {n}.5), ")),
            3,
        ),
        ("python", literal(&|n| format!("{n},")), 3),
    ] {
        let line = if line == 0 {
            code.lines().count()
        } else {
            line
        };
        let found = found(&code, language, &mut Memory::default());
        assert_eq!(found, [format!("{line} delete x")], "{language}");
    }
}

/// Code that a cell runs repeatedly is read only a bounded number of times.
#[test]
fn code_that_is_run_again_and_again_is_bounded() {
    let text = "y = 1; ".repeat(4_000);
    let code = format!("x = '{text}'\n{}", "exec(x)\n".repeat(10_000));
    let found = found(&code, "python", &mut Memory::default());
    assert_eq!(found, ["16 unanalysed"]);
}

#[test]
fn code_with_characters_that_nobody_sees_is_pointed_out() {
    let site = Site {
        cwd: Path::new("/w"),
        writable: &[],
        home: None,
        is_old: &|_| false,
    };
    let kinds = |code: &str| -> Vec<FindingKind> {
        let analysis = analyse(code, "python", &site, &mut Memory::default());
        analysis.findings.iter().map(|it| it.kind).collect()
    };
    assert_eq!(kinds("x = 1 #\u{1b}[2K"), [FindingKind::Obfuscation]);
    assert_eq!(kinds("x = 1 #\u{202e}"), [FindingKind::Obfuscation]);
    assert_eq!(kinds("x = '\u{1f468}\u{200d}\u{1f469}'\t# é\n"), []);
}

/// Any code gives a result, and exceeding a limit is a finding.
#[test]
fn hostile_code_neither_hangs_nor_crashes() {
    let many = |unit: &str, times: usize| unit.repeat(times);
    let deep =
        |open: &str, close: &str, times| format!("{}{}", many(open, times), many(close, times));
    let staircase: String = (0..2000).fold(String::new(), |mut code, depth| {
        let _ = writeln!(code, "{}if x:", " ".repeat(depth));
        code
    });
    let quotes: String = (0..500).fold(String::new(), |code, _| format!("f\"{{{code}"));
    let hostile = [
        many("(", 200_000),
        deep("(", ")", 60_000),
        deep("[", "]", 60_000),
        deep("f(", ")", 60_000),
        deep("f(os,", ")", 40_000),
        deep("{", "}", 60_000),
        deep("$(", ")", 60_000),
        deep("`", "`", 60_000),
        many("a.", 100_000),
        many("a+", 100_000),
        many("\"a\"+", 60_000),
        many("a()", 60_000),
        many("x[", 60_000),
        many("if ", 60_000),
        many("!rm x\n", 20_000),
        many("os.remove('x')\n", 10_000),
        many("'a'\n", 60_000),
        many("|", 200_000),
        many("x|", 60_000),
        many("<<EOF\n", 20_000),
        many("\\\n", 100_000),
        many("\"\"\"", 60_000),
        many("`${", 60_000),
        many("exec('", 10_000),
        many("lambda:", 30_000),
        many("not ", 60_000),
        many("async ", 60_000),
        many("\u{0}", 1000),
        many("\u{feff}\r\n\t\u{b}", 10_000),
        many("eval \"", 10_000),
        staircase,
        quotes,
    ];
    // The slowest cases at full length.
    let full = [
        deep("f(os,", ")", 40_000),
        deep("`", "`", 60_000),
        many("a()", 60_000),
        many("a+", 100_000),
    ];
    let short = hostile.map(|code| (code, LONGEST_SHELL));
    for (code, most) in short.into_iter().chain(full.map(|code| (code, LONGEST))) {
        for language in ["python", "bash", "javascript", "r"] {
            let longest = Dialect::of(language).unwrap().longest().min(most);
            let mut end = code.len().min(longest);
            while !code.is_char_boundary(end) {
                end -= 1;
            }
            let found = found(&code[..end], language, &mut Memory::default());
            assert!(found.len() <= 201, "{}", found.len());
        }
    }
}
