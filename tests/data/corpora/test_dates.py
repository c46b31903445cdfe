"""Written dates: read back by another reader, which knows the rules and puts numbers together from their parts."""

import re
import unicodedata
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data.corpora.dates import FIRST, FORMS, LAST, split_dates, ways, without_accents, write_dates

DATES = st.dates(FIRST, LAST)
MONTHS = {
    "jan ene oca": 1, "feb fev sub": 2, "mar mrz": 3, "apr abr avr nis": 4, "may mai": 5, "jun juin haz": 6,
    "jul juil tem": 7, "aug aou ago agu": 8, "sep eyl": 9, "oct okt eki": 10, "nov kas": 11, "dec dez dic ara": 12,
}  # fmt: skip
WEEKDAYS = [
    "monday mon montag mo lundi lunes pazartesi 星期一", "tuesday tue dienstag di mardi martes sali 星期二",
    "wednesday wed mittwoch mi mercredi miercoles carsamba 星期三",
    "thursday thu donnerstag do jeudi jueves persembe 星期四",
    "friday fri freitag fr vendredi viernes cuma 星期五", "saturday sat samstag sa samedi sabado cumartesi 星期六",
    "sunday sun sonntag so dimanche domingo pazar 星期日",
]  # fmt: skip
# parts of numbers; a number is the sum of those it is made of
PARTS = {
    "English": "first 1 second 2 third 3 four 4 fif 5 six 6 seven 7 eigh 8 nin 9 ten 10 eleven 11 twel 12 thirteen 13 "
    "fourteen 14 fifteen 15 sixteen 16 seventeen 17 eighteen 18 nineteen 19 twent 20 thirt 30",
    "German": "erst 1 ein 1 zwei 2 dritt 3 drei 3 vier 4 funf 5 sech 6 sieb 7 acht 8 neun 9 zehn 10 elf 11 zwolf 12 "
    "zwanzig 20 dreißig 30 dreissig 30",
    "French": "premier 1 un 1 deux 2 trois 3 quatre 4 cinq 5 six 6 sept 7 huit 8 neuf 9 dix 10 onze 11 douze 12 "
    "treize 13 quatorze 14 quinze 15 seize 16 vingt 20 trente 30",
    "Spanish": "primero 1 uno 1 dos 2 tres 3 cuatro 4 cinco 5 seis 6 siete 7 ocho 8 nueve 9 diez 10 once 11 doce 12 "
    "trece 13 catorce 14 quince 15 dieci 10 veint 20 treinta 30",
    "Turkish": "bir 1 iki 2 uc 3 dort 4 bes 5 alti 6 yedi 7 sekiz 8 dokuz 9 on 10 yirmi 20 otuz 30",
}
YEARS = (
    "ten 10 twenty 20 thirty 30 forty 40 fifty 50 sixty 60 seventy 70 eighty 80 ninety 90 one 1 two 2 three 3 four 4"
)
YEARS += " five 5 six 6 seven 7 eight 8 nine 9 eleven 11 twelve 12 thirteen 13 fourteen 14 fifteen 15 sixteen 16"
YEARS += " seventeen 17 eighteen 18 nineteen 19"


def total(text, table):
    words = table.split()
    values = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    found = re.findall("|".join(sorted(values, key=len, reverse=True)), text)
    return sum(values[part] for part in found)


def bare(text):
    text = unicodedata.normalize("NFKD", text.lower().replace("ı", "i"))
    return "".join(c for c in text if unicodedata.category(c) != "Mn")


def full(year):
    return int(year) if len(year) == 4 else (1900 if int(year) >= 50 else 2000) + int(year)


def read_digits(text):
    if found := re.fullmatch(r"(\d{4})[-/.]?(\d\d?)[-/.]?(\d\d?)", text):
        return date(*map(int, found.groups()))
    if found := re.fullmatch(r"(\d\d?)/(\d\d?)/(\d+)", text):
        return date(full(found[3]), int(found[1]), int(found[2]))
    found = re.fullmatch(r"(\d\d?)\. ?(\d\d?)\. ?(\d+)", text)
    return date(full(found[3]), int(found[2]), int(found[1]))


def read_chinese(text):
    def number(part):
        for k, figure in enumerate("〇一二三四五六七八九"):
            part = part.replace(figure, str(k))
        if "十" in part:
            tens, _, ones = part.partition("十")
            part = str(10 * int(tens or 1) + int(ones or 0))
        return part

    year, month, day = (
        number(part.strip()) for part in re.fullmatch(r"(.+)年(.+)月(.+)[日号].*", text.split("星")[0]).groups()
    )
    return date(full(year), int(month), int(day))


def read(text, language):
    """The date that a text means."""
    text = bare(text)
    if language == "Chinese":
        return read_chinese(text)
    weekdays = {name for names in WEEKDAYS for name in names.split()}
    words = [w for w in re.findall(r"\d+(?:st|nd|rd|th|er)?|[^\W\d]+(?:-[^\W\d]+)*", text) if w not in weekdays]
    if language == "digits" or not any(len(w) > 2 and not w[0].isdigit() for w in words):
        return read_digits(re.sub(r"^[a-z]+, ", "", text))
    text = re.sub(r"-(?=[a-z]{3}-)|(?<=-[a-z]{3})-", " ", text)  # 3-mar-98
    words = [w for w in re.findall(r"\d+(?:st|nd|rd|th|er)?|[^\W\d]+(?:-[^\W\d]+)*", text) if w not in weekdays]
    months = [
        (k, number)
        for k, w in enumerate(words)
        for stems, number in MONTHS.items()
        if w.startswith(tuple(stems.split()))
    ]
    if len(months) > 1:  # le sept mars
        months = [(k, number) for k, number in months if words[k] != "sept"]
    [(place, month)] = months
    digits = [re.match(r"\d+", w)[0] for w in words if w[0].isdigit()]
    if re.match(r"\d{4}", words[0]):
        digits.reverse()
    rest = words[:place] + words[place + 1 :]
    if len(digits) == 2:
        return date(full(digits[1]), month, int(digits[0]))
    if digits:
        return date(full(digits[0]), month, total(" ".join(rest), PARTS[language]))
    day, year = text.rsplit(", ", 1)
    if year.startswith("two thousand"):
        number = 2000 + total(year.removeprefix("two thousand"), YEARS)
    else:
        century, _, rest = year.partition(" ")
        number = 100 * total(century, YEARS) + total(rest, YEARS)
    return date(number, month, total(day.replace(words[place], ""), PARTS["English"]))


@given(DATES)
def test_every_way_means_the_date_with_accents_or_without(day):
    for language in FORMS:
        for text in ways(day, language):
            assert read(text, language) == day, text
            assert read(without_accents(text), language) == day, text


@pytest.mark.parametrize(
    ("language", "form"),
    [
        ("digits", "%d.%m.%Y"), ("digits", "%m/%d/%Y"), ("digits", "%Y-%m-%d"), ("digits", "%Y%m%d"),
        ("English", "%B %d, %Y"), ("English", "%d %B %Y"), ("English", "%A, %B %d, %Y"), ("English", "%d-%b-%Y"),
        ("English", "%a, %d %b %Y"),
    ],
)  # fmt: skip
def test_as_the_standard_library_writes_and_reads_them(language, form):
    for day in (date(1950, 1, 1), date(1998, 12, 3), date(2049, 10, 31)):
        found = []
        for text in ways(day, language):
            try:
                found.append(datetime.strptime(text, form).date())
            except ValueError:
                continue
        assert found
        assert set(found) == {day}


def test_a_day_worked_by_hand():
    tuesday = date(1998, 3, 3)
    assert "Tuesday, March 3, 1998" in ways(tuesday, "English")
    assert "the third of March, nineteen ninety-eight" in ways(tuesday, "English")
    assert "Dienstag, den 3. März 1998" in ways(tuesday, "German")
    assert "le mardi 3 mars 1998" in ways(tuesday, "French")
    assert "el martes 3 de marzo de 1998" in ways(tuesday, "Spanish")
    assert "3 Mart 1998 Salı" in ways(tuesday, "Turkish")
    assert "一九九八年三月三日星期二" in ways(tuesday, "Chinese")
    assert {"3.3.98", "3/3/98", "1998-03-03"} <= set(ways(tuesday, "digits"))
    assert "March 12, '49" in ways(date(2049, 3, 12), "English")


def test_a_weekday_is_the_right_one():
    for k in range(14):
        day = date(2024, 2, 20) + timedelta(k)
        names = WEEKDAYS[day.weekday()].split()
        for language in set(FORMS) - {"digits"}:
            told = [w for text in ways(day, language) for w in re.findall(r"星期.|[a-z]+", bare(text))]
            every = {name for known in WEEKDAYS for name in known.split()}
            assert set(told) & every <= set(names)
            assert set(told) & every


def test_held_out_dates_are_in_no_other_part():
    train, held = split_dates(3000, seed=5)
    assert len(held) == 3000
    assert not set(train) & set(held)
    assert len(set(train) | set(held)) == (LAST - FIRST).days + 1
    assert split_dates(3000, seed=5) == (train, held)
    assert split_dates(3000, seed=6)[1] != held
    with pytest.raises(ValueError, match="held_out must be between 1 and 36,524, got 0"):
        split_dates(0)


def test_what_is_written_follows_the_seed_and_uses_every_language():
    dates, _ = split_dates(10)
    made = list(write_dates(dates[:100], 400, seed=1))
    assert made == list(write_dates(dates[:100], 400, seed=1))
    assert made != list(write_dates(dates[:100], 400, seed=2))
    assert [one.date for one in made] == dates[:100] * 4
    assert {one.language for one in made} == set(FORMS)
    texts = [set(ways(one.date, one.language)) for one in made]
    same = [one.text in known for one, known in zip(made, texts, strict=True)]
    assert all(ok or one.text in map(without_accents, known) for ok, one, known in zip(same, made, texts, strict=True))
    assert not all(same)


def test_an_unknown_language_is_named():
    with pytest.raises(ValueError, match=r"language must be one of digits, English, .*; got 'Klingon'"):
        ways(date(2000, 1, 1), "Klingon")
