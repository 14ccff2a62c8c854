#!/usr/bin/env python3
"""The known answers to questions.json and followups.json, computed with pandas: writes the files with answers.

usage: answers.py [--check]     --check compares with the files that are there; exit status 1 if they differ

Each answer is a list of what must be in the words of a right answer, all of it:
  {"number": 37.8, "tolerance": 0.05}   a number at most that far from it; "or" lists the same in other units, with the
                                         tolerance scaled to them
  {"words": ["July"]}                   one of these, whatever the case
"""

import json
import pathlib
import sys

import pandas as pd

HERE = pathlib.Path(__file__).resolve().parent
ANSWERS = HERE / "answers.json"
FOLLOWUPS = HERE / "followups-answers.json"


def table(name, **options):
    for folder in [HERE / "data", HERE.parent.parent / "notebooks/data"]:
        if (folder / name).exists():
            return pd.read_csv(folder / name, **options)
    raise FileNotFoundError(name)


def number(value, tolerance, *others):
    answer = {"number": round(float(value), 6), "tolerance": tolerance}
    if others:
        answer["or"] = [round(float(other), 6) for other in others]
    return answer


def words(*alternatives):
    return {"words": list(alternatives)}


def date(day):
    """A date as people and programs write it."""
    return words(
        f"{day:%Y-%m-%d}", f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%B} {day.year}",
        f"{day:%B} {day.day}th, {day.year}", f"{day.day}th of {day:%B} {day.year}", f"{day:%m}/{day:%d}/{day.year}",
    )


def month(day):
    return words(f"{day:%B} {day.year}", f"{day:%B} of {day.year}", f"{day:%Y-%m}", f"{day:%b} {day.year}", f"{day:%B}, {day.year}")


def answers():
    weather = table("weather.csv", parse_dates=["date"])
    seattle = weather[weather["city"] == "Seattle"].sort_values("date")
    york = weather[weather["city"] == "New York"]
    hottest = york.loc[york["temp_max"].idxmax()]
    snow = weather[weather["weather"] == "snow"].groupby("city").size()
    by_month = york.groupby(york["date"].dt.month_name())["temp_max"].mean()
    wind = weather.groupby("city")["wind"].mean()
    dry = seattle["precipitation"] == 0
    runs = dry.groupby((dry != dry.shift()).cumsum()).sum()
    yield "rain-total", [number(seattle[seattle["date"].dt.year == 2014]["precipitation"].sum(), 0.5)]
    yield "hottest-day", [date(hottest["date"]), number(hottest["temp_max"], 0.05)]
    yield "snow-days", [number(snow["Seattle"], 0), number(snow["New York"], 0)]
    wet = (seattle["precipitation"] > 0).mean()
    yield "wet-share", [number(100 * wet, 0.1, wet)]
    yield "warmest-month", [words(by_month.idxmax())]
    yield "windier-city", [words(wind.idxmax()), number(wind.max(), 0.05)]
    yield "dry-run", [number(runs.max(), 0)]

    penguins = table("penguins.csv")
    mass = penguins.groupby("species")["body_mass_g"].mean()
    gentoo = penguins[penguins["species"] == "Gentoo"].groupby("sex")["body_mass_g"].mean()
    adelie = penguins[penguins["species"] == "Adelie"].groupby("island").size()
    yield "heaviest-species", [words(mass.idxmax()), number(mass.max(), 1, mass.max() / 1000)]
    yield "unknown-sex", [number(penguins["sex"].isna().sum(), 0)]
    yield "flipper-mass", [number(penguins["flipper_length_mm"].corr(penguins["body_mass_g"]), 0.006)]
    yield "adelie-islands", [number(count, 0) for count in adelie]
    yield "gentoo-gap", [number(gentoo["MALE"] - gentoo["FEMALE"], 1)]

    countries = table("gapminder-health-income.csv")
    richest = countries.loc[countries["income"].idxmax()]
    income = countries.groupby("region")["income"].mean()
    africa = countries[countries["region"] == "sub_saharan_africa"]
    weighted = (africa["health"] * africa["population"]).sum() / africa["population"].sum()
    region = income.idxmax()
    yield "highest-income", [words(richest["country"]), number(richest["income"], 0.5)]
    yield "short-lives", [number((countries["health"] < 60).sum(), 0)]
    yield "richest-region", [words(region, region.replace("_", " ")), number(income.max(), 1)]
    yield "weighted-health", [number(weighted, 0.01)]

    power = table("iowa-electricity.csv", parse_dates=["year"])
    power = power.pivot(index="year", columns="source", values="net_generation")
    last = power.loc["2017-01-01"]
    share = last["Renewables"] / last.sum()
    ahead = power[power["Renewables"] > power["Nuclear Energy"]]
    yield "renewable-share", [number(100 * share, 0.1, share)]
    yield "overtaken", [number(ahead.index[0].year, 0)]

    co2 = table("co2-concentration.csv", parse_dates=["Date"])
    yearly = co2.groupby(co2["Date"].dt.year)["CO2"].mean()
    yield "first-400", [month(co2[co2["CO2"] > 400]["Date"].iloc[0])]
    yield "co2-growth", [number(yearly[2010] - yearly[1960], 0.05)]

    warm = table("global-temp.csv")
    warmest = warm.loc[warm["temp"].idxmax()]
    yield "warmest-year", [number(warmest["year"], 0), number(warmest["temp"], 0.005)]

    jobs = table("us-employment.csv", parse_dates=["month"])
    worst = jobs.loc[jobs["nonfarm_change"].idxmin()]
    first, latest = jobs["manufacturing"].iloc[0], jobs["manufacturing"].iloc[-1]
    yield "worst-month", [month(worst["month"]), number(worst["nonfarm_change"], 0, -worst["nonfarm_change"])]
    change = 100 * (latest / first - 1)
    yield "factory-jobs", [number(change, 0.05, -change)]

    rates = table("unemployment.csv")
    january = rates[(rates["year"] == 2010) & (rates["month"] == 1)]
    hardest = january.loc[january["rate"].idxmax()]
    mean = rates.groupby("industry")["rate"].mean()
    yield "hit-hardest", [words(hardest["industry"]), number(hardest["rate"], 0.05)]
    yield "mean-rate", [words(mean.idxmax()), number(mean.max(), 0.05)]


def followups():
    weather = table("weather.csv", parse_dates=["date"])
    seattle = weather[weather["city"] == "Seattle"].copy()
    seattle["spread"] = seattle["temp_max"] - seattle["temp_min"]
    wide = seattle[seattle["spread"] > 10]
    yield "rain-1", [number(len(seattle), 0)]
    yield "rain-2", [number(seattle["spread"].max(), 0.05)]
    yield "rain-3", [date(seattle.loc[seattle["spread"].idxmax()]["date"])]
    # Differences of decimal numbers: days that are just above or at 10 depend on how they are rounded.
    exact = seattle[(seattle["spread"] > 10) & (seattle["spread"] - 10 > 1e-9)]
    yield "rain-4", [number(len(wide), 0, len(exact))]
    yield "rain-5", [number(wide["precipitation"].sum(), 0.1, exact["precipitation"].sum())]

    left = table("penguins.csv").dropna(subset=["body_mass_g"]).copy()
    left["kg"] = left["body_mass_g"] / 1000
    males = left[left["sex"] == "MALE"]
    heaviest = males.groupby("species")["kg"].mean()
    yield "birds-1", [number(len(left), 0)]
    yield "birds-2", [number(left["kg"].mean(), 0.006)]
    yield "birds-3", [number(len(males), 0)]
    yield "birds-4", [words(heaviest.idxmax()), number(heaviest.max(), 0.006)]
    yield "birds-5", [number((males["island"] == "Dream").sum(), 0)]

    countries = table("gapminder-health-income.csv")
    rich, others = countries[countries["income"] > 30000], countries[countries["income"] <= 30000]
    yield "lands-1", [number(len(rich), 0)]
    yield "lands-2", [number(rich["health"].mean(), 0.06)]
    yield "lands-3", [number(others["health"].mean(), 0.06)]
    yield "lands-4", [words(rich.loc[rich["health"].idxmin()]["country"])]
    people = rich["population"].sum()
    yield "lands-5", [number(people, 0.01 * people, people / 1e6, people / 1e9)]

    total = table("unemployment.csv").groupby(["year", "month"])["count"].sum()
    year, month_number = total.idxmax()
    mean = total[2005].mean()
    yield "work-1", [number(len(total), 0)]
    yield "work-2", [number(year, 0), words(f"{pd.Timestamp(year, month_number, 1):%B}", f"month {month_number}",
                                            f"{year}-{month_number:02}", f"{month_number}/{year}", f"month is {month_number}")]
    yield "work-3", [number(total.max(), 0)]
    yield "work-4", [number(mean, 1)]
    yield "work-5", [number(total.max() - mean, 1)]


def main():
    questions = [it["id"] for it in json.loads((HERE / "questions.json").read_text())]
    chains = [it["id"] for chain in json.loads((HERE / "followups.json").read_text()) for it in chain["steps"]]
    for computed, asked, path in [(dict(answers()), questions, ANSWERS), (dict(followups()), chains, FOLLOWUPS)]:
        if list(computed) != asked:
            sys.exit(f"error: answers and questions differ: {set(computed) ^ set(asked) or 'in their order'}")
        if "--check" in sys.argv[1:]:
            stored = json.loads(path.read_text())
            wrong = [name for name in computed if stored.get(name) != computed[name]]
            if wrong or len(stored) != len(computed):
                sys.exit(f"error: {path.name} has other answers to: {', '.join(wrong) or 'questions that are gone'}")
        else:
            lines = [f"  {json.dumps(name)}: {json.dumps(answer)}" for name, answer in computed.items()]
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
