//! Tables of findings, sandboxes, rules and the resulting rulings.

use super::*;
use crate::risk::{Memory, analyse};

fn ground(level: Level, network: Network) -> Ground {
    Ground {
        cwd: "/home/ada/project".into(),
        home: Some("/home/ada".into()),
        extent: Extent {
            level,
            network,
            add_dirs: vec!["/data".into()],
            reads: vec![],
            landlock: false,
            gvisor: false,
        },
    }
}

fn rules(text: &str) -> Vec<Rule> {
    #[derive(serde::Deserialize)]
    struct Rules {
        rules: Vec<Rule>,
    }
    toml::from_str::<Rules>(text).unwrap().rules
}

fn judged(policy: &Policy, code: &str, language: &str) -> Ruling {
    let site = policy.site(&|path| path.ends_with("old.csv"));
    let analysis = analyse(code, language, &site, &mut Memory::default());
    policy.rule(&analysis, language)
}

/// The policy `on-risk` asks only about what the sandbox does not prevent.
#[test]
fn what_is_contained_is_not_asked_about() {
    use Network::{Off, On};
    let grounds = [
        ground(Level::ReadOnly, Off),
        ground(Level::Workspace, Off),
        ground(Level::Workspace, On),
        ground(Level::Full, Off),
    ];
    for (code, asks) in [
        ("x = 1", [false, false, false, false]),
        ("import os; os.remove('x')", [false, true, true, true]),
        ("import os; os.remove(x)", [false, true, true, true]),
        ("import os; os.remove('/data/x')", [false, true, true, true]),
        (
            "import os; os.remove('/etc/x')",
            [false, false, false, true],
        ),
        (
            "import os; os.remove('/tmp/x')",
            [false, false, false, true],
        ),
        ("open('old.csv', 'w')", [false, true, true, true]),
        ("open('new.csv', 'w')", [false, false, false, false]),
        ("open('../up', 'w')", [false, false, false, true]),
        (
            "import requests; requests.get(u)",
            [false, false, true, true],
        ),
        ("!ls", [false, false, false, true]),
        ("!rm x", [false, true, true, true]),
        ("%pip install x", [false, true, true, true]),
        ("import os; os.kill(1, 9)", [false, false, false, true]),
        ("open('/home/ada/.ssh/id_rsa')", [false, false, false, true]),
        ("open('.env')", [true, true, true, true]),
        ("exec(x)", [false, true, true, true]),
        ("x = = 1", [false, true, true, true]),
        ("%%perl\nx", [false, true, true, true]),
    ] {
        for (ground, asks) in grounds.iter().zip(asks) {
            let policy = Policy::new(Approval::OnRisk, vec![], ground.clone());
            let expected = if asks { Action::Ask } else { Action::Allow };
            let ruling = judged(&policy, code, "python");
            let extent = &ground.extent;
            assert_eq!(ruling.action, expected, "{code} at {extent:?}: {ruling:?}");
        }
    }
}

#[test]
fn a_question_says_what_and_why() {
    let policy = Policy::new(
        Approval::OnRisk,
        vec![],
        ground(Level::Workspace, Network::Off),
    );
    let code = "import os, shutil\n!ls\nshutil.rmtree('out')\nexec(code)\nos.remove('a')\n";
    let ruling = judged(&policy, code, "python");
    assert_eq!(
        ruling.reason,
        "it deletes files, it runs code that is computed"
    );
    let lines: Vec<String> = ruling.findings.iter().map(Finding::words).collect();
    assert_eq!(
        lines,
        [
            "line 3: deletes files (shutil.rmtree('out'))",
            "line 4: runs code that is computed (exec(code))",
            "line 5: deletes files (os.remove('a'))",
        ]
    );
    // A person who is asked about every cell sees all findings.
    let policy = Policy::new(
        Approval::Always,
        vec![],
        ground(Level::Workspace, Network::Off),
    );
    let ruling = judged(&policy, code, "python");
    assert_eq!(
        (ruling.action, ruling.reason.as_str(), ruling.findings.len()),
        (Action::Ask, "every cell is asked about", 4)
    );
}

#[test]
fn rules_go_before_the_policy() {
    use Action::{Allow, Ask, Forbid};
    let all = rules(
        r#"
        [[rules]]
        action = "allow"
        finding = "delete"
        path = "out/**"
        [[rules]]
        action = "forbid"
        path = "private/**"
        [[rules]]
        action = "ask"
        command = "git"
        [[rules]]
        action = "allow"
        finding = "unanalysed"
        language = "julia"
        [[rules]]
        action = "forbid"
        language = "bash"
        finding = "network"
        [[rules]]
        action = "ask"
        language = "R"
        [[rules]]
        action = "forbid"
        path = "~/notes/*"
        "#,
    );
    for (code, language, at) in [
        (
            "import os; os.remove('out/a/b')",
            "python",
            [Ask, Allow, Allow],
        ),
        (
            "import os; os.remove('out/../b')",
            "python",
            [Ask, Ask, Allow],
        ),
        ("import os; os.remove('b')", "python", [Ask, Ask, Allow]),
        ("open('private/x')", "python", [Forbid; 3]),
        ("open('./private/a/x')", "python", [Forbid; 3]),
        ("open('/home/ada/project/private/x')", "python", [Forbid; 3]),
        ("cat private/x", "bash", [Forbid; 3]),
        ("open('/home/ada/notes/x')", "python", [Forbid; 3]),
        ("!git log", "python", [Ask, Ask, Allow]),
        ("git log", "bash", [Ask, Ask, Allow]),
        ("ls", "bash", [Ask, Allow, Allow]),
        ("curl x", "bash", [Forbid; 3]),
        (
            "import requests; requests.get(u)",
            "python",
            [Ask, Allow, Allow],
        ),
        ("rm(x)", "julia", [Ask, Allow, Allow]),
        ("rm(x)", "octave", [Ask, Ask, Allow]),
        ("x <- 1", "R", [Ask, Ask, Allow]),
        ("x = 1", "python", [Ask, Allow, Allow]),
    ] {
        for (approval, expected) in [Approval::Always, Approval::OnRisk, Approval::Never]
            .into_iter()
            .zip(at)
        {
            let ground = ground(Level::Workspace, Network::Off);
            let policy = Policy::new(approval, all.clone(), ground);
            let ruling = judged(&policy, code, language);
            assert_eq!(
                ruling.action, expected,
                "{code} at {approval:?}: {ruling:?}"
            );
        }
    }
}

#[test]
fn a_ruling_says_who_and_by_which_rule() {
    let all = rules("[[rules]]\naction = \"forbid\"\nfinding = \"delete\"\npath = \"*.csv\"");
    let policy = Policy::new(Approval::Never, all, ground(Level::Workspace, Network::Off));
    let ruling = judged(&policy, "import os\nos.remove('a.csv')", "python");
    let json = serde_json::to_value(&ruling).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "action": "forbid",
            "ruled_by": "rule",
            "number": 1,
            "rule": "forbid finding delete path *.csv",
            "reason": "rule 1 of the configuration: forbid finding delete path *.csv",
            "findings": [{
                "finding": "delete",
                "line": 2,
                "column": 1,
                "text": "os.remove('a.csv')",
                "reason": "deletes files",
                "path": "a.csv",
                "place": "workspace",
            }],
        })
    );
    assert_eq!(serde_json::from_value::<Ruling>(json).unwrap(), ruling);
}

#[test]
fn what_a_person_lets_run_is_for_one_kind_and_language() {
    let ground = ground(Level::Workspace, Network::Off);
    let mut policy = Policy::new(Approval::OnRisk, vec![], ground.clone());
    let site = policy.site(&|_| false);
    let deletes = analyse("rm x", "bash", &site, &mut Memory::default());
    let permits = policy.always(&deletes, "bash");
    assert_eq!(permits.len(), 1);
    assert_eq!(policy.always(&deletes, "bash"), []);
    for (code, language, action) in [
        ("rm y", "bash", Action::Allow),
        ("rm y; pip install x", "bash", Action::Ask),
        ("!rm y", "python", Action::Ask),
    ] {
        assert_eq!(judged(&policy, code, language).action, action, "{code}");
    }
    // A rule that asks applies every time.
    let all = rules("[[rules]]\naction = \"ask\"\nfinding = \"delete\"");
    let mut policy = Policy::new(Approval::OnRisk, all, ground);
    assert_eq!(policy.always(&deletes, "bash"), []);
    assert_eq!(judged(&policy, "rm y", "bash").action, Action::Ask);
}

/// After `never`, such code is refused without asking, whatever else would allow it.
#[test]
fn what_is_rejected_for_good_is_forbidden() {
    let ground = ground(Level::Workspace, Network::Off);
    let allow = rules("[[rules]]\naction = \"allow\"\nfinding = \"delete\"\npath = \"out/**\"\n");
    let mut policy = Policy::new(Approval::OnRisk, allow, ground);
    let delete = "import os; os.remove('x')";
    let site = policy.site(&|_| false);
    let analysis = analyse(delete, "python", &site, &mut Memory::default());
    policy.never(&analysis, "python");
    let action = |policy: &Policy, code: &str| judged(policy, code, "python").action;
    assert_eq!(action(&policy, delete), Action::Forbid);
    assert_eq!(
        action(&policy, "import os; os.remove('out/y')"),
        Action::Forbid
    );
    assert_eq!(action(&policy, "x = 1"), Action::Allow);
    policy.approval = Approval::Never;
    let ruling = judged(&policy, delete, "python");
    assert_eq!(
        (ruling.action, ruling.by.clone()),
        (Action::Forbid, RuledBy::Remembered)
    );
    assert!(
        ruling
            .words_for_model()
            .starts_with("the user forbade such code in this session: line 1")
    );
}
