"""Dates as people write them, in six languages, and in ISO form: pairs for a translator to learn from.

    the third of March, 1998 · 3/3/98 · Dienstag, 3. März 1998 · le 3 mars 1998 · el 3 de marzo de 1998 · 3 Mart 1998 ·
    一九九八年三月三日

Each text means one date, by these rules:

* 3.12.98, with points, is day, month, year; 12/3/98, with slashes, is month, day, year, as in America; a year of four
  digits in front is followed by month and day, whatever stands between.
* A year of two digits is between 1950 and 2049: 50 is 1950, 49 is 2049. All dates are of those hundred years.
* A day of the week, where there is one, is the right one.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from ...errors import ArgumentError

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)
BARE = 0.1  # share of texts without their accents: what a foreign keyboard makes of février

# {d} {m} 3, {dd} {mm} 03, {y} 1998, {yy} 98; {th} 3rd, {day} third; {month} March, {mon} Mar; {weekday} Tuesday;
# {year} nineteen ninety-eight
FORMS = {
    "digits": """
        {dd}.{mm}.{y} | {dd}.{mm}.{yy} | {d}.{m}.{y} | {d}.{m}.{yy} | {d}. {m}. {y}
        {mm}/{dd}/{y} | {mm}/{dd}/{yy} | {m}/{d}/{y} | {m}/{d}/{yy}
        {y}-{mm}-{dd} | {y}/{mm}/{dd} | {y}/{m}/{d} | {y}.{mm}.{dd} | {y}{mm}{dd}""",
    "English": """
        the {day} of {month}, {y} | the {day} of {month} {y} | {day} of {month} {y} | the {day} of {month}, {year}
        {month} the {day}, {y} | {month} {day}, {y} | {month} the {day}, {year} | {month} {day}, {year}
        {month} {d}, {y} | {month} {d} {y} | {month} {th}, {y} | {month} {th} {y} | {month} {d}, '{yy}
        {d} {month} {y} | {th} {month} {y} | {th} of {month} {y} | the {th} of {month}, {y} | {y} {month} {d}
        {mon} {d}, {y} | {mon} {d} {y} | {d} {mon} {y} | {d} {mon} {yy} | {dd}-{mon}-{y} | {d}-{mon}-{yy}
        {weekday}, {month} {d}, {y} | {weekday}, {d} {month} {y} | {weekday} the {th} of {month}, {y}
        {weekday:.3}, {d} {mon} {y} | on {month} {d}, {y} | on {d} {month} {y}""",
    "German": """
        {d}. {month} {y} | {d}.{month} {y} | {dd}. {month} {y} | {d}. {month} {yy} | {d}. {mon} {y} | {d}. {mon} {yy}
        den {d}. {month} {y} | am {d}. {month} {y} | der {d}. {month} {y}
        der {day} {month} {y} | am {day}n {month} {y} | {weekday}, {d}. {month} {y}
        {weekday}, den {d}. {month} {y} | {weekday}, der {day} {month} {y}
        {weekday:.2}, {dd}.{mm}.{y} | {weekday}, {d}.{m}.{y}""",
    "French": """
        {th} {month} {y} | le {th} {month} {y} | {th} {mon} {y} | {th} {month} {yy} | le {th} {mon} {yy}
        {weekday} {th} {month} {y} | le {weekday} {th} {month} {y}
        le {day} {month} {y} | {weekday} {day} {month} {y}""",
    "Spanish": """
        {d} de {month} de {y} | el {d} de {month} de {y} | {d} de {month} del {y} | {d} {month} {y}
        {d} {mon} {y} | {d}-{mon}-{yy} | {d} de {mon}. de {y} | {day} de {month} de {y} | el {day} de {month} de {y}
        {weekday}, {d} de {month} de {y} | el {weekday} {d} de {month} de {y}""",
    "Turkish": """
        {d} {month} {y} | {dd} {month} {y} | {d} {month} {yy} | {d} {mon} {y} | {day} {month} {y}
        {d} {month} {y} {weekday} | {d} {month} {y}, {weekday}
        {weekday}, {d} {month} {y} | {day} {month} {y} {weekday}""",
    "Chinese": """
        {y}年{m}月{d}日 | {y}年{mm}月{dd}日 | {y}年{m}月{d}号 | {y} 年 {m} 月 {d} 日 | {yy}年{m}月{d}日
        {y}年{m}月{d}日星期{weekday} | {y}年{m}月{d}日 星期{weekday}
        {year}年{month}月{day}日 | {year}年{month}月{day}日星期{weekday}""",
}


class WrittenDate(NamedTuple):
    """A date, the language it is written in, and how."""

    date: date
    language: str
    text: str


def ways(day: date, language: str) -> list[str]:
    """Every way to write `day` in a language, a key of `FORMS`; `digits` is none in particular.

    >>> from datetime import date
    >>> from carousel.data.corpora.dates import ways
    >>> ways(date(1998, 3, 1), "French")[:4]
    ['1er mars 1998', 'le 1er mars 1998', '1er mars 1998', '1er mars 98']
    """
    if language not in FORMS:
        raise ArgumentError(f"language must be one of {', '.join(FORMS)}; got {language!r}")
    return [form.format(**parts(day, language)) for form in forms(language)]


def split_dates(held_out: int, seed: int = 0) -> tuple[list[date], list[date]]:
    """The hundred years' dates in two parts, for training and `held_out`, in a random order."""
    every = [FIRST + timedelta(k) for k in range((LAST - FIRST).days + 1)]
    if not 0 < held_out < len(every):
        raise ArgumentError(f"held_out must be between 1 and {len(every) - 1:,}, got {held_out:,}")
    random.Random(seed).shuffle(every)
    return every[held_out:], every[:held_out]


def write_dates(dates: Sequence[date], count: int, seed: int = 0) -> Iterator[WrittenDate]:
    """`count` of `dates`, over and over in their order, each in a language and a form drawn at random.

    >>> from carousel.data.corpora.dates import split_dates, write_dates
    >>> dates, held_out = split_dates(held_out=1000)
    >>> [written] = write_dates(dates, 1)
    >>> written.date == dates[0]
    True
    """
    draw = random.Random(f"write {seed}")  # not the numbers that split them
    known = {language: forms(language) for language in FORMS}
    languages = list(known)
    for k in range(count):
        day, language = dates[k % len(dates)], draw.choice(languages)
        text = draw.choice(known[language]).format(**parts(day, language))
        yield WrittenDate(day, language, without_accents(text) if draw.random() < BARE else text)


def forms(language: str) -> list[str]:
    return [form.strip() for line in FORMS[language].splitlines() for form in line.split("|") if form.strip()]


def parts(d: date, language: str) -> dict[str, str]:
    """What a form is filled with."""
    values = {"d": str(d.day), "m": str(d.month), "y": str(d.year), "dd": f"{d:%d}", "mm": f"{d:%m}", "yy": f"{d:%y}"}
    if language == "digits":
        return values
    words = WORDS[language]
    values |= {"month": words.months[d.month - 1], "mon": words.short[d.month - 1]}
    values |= {"weekday": words.weekdays[d.weekday()], "day": words.days[d.day - 1]}
    if language == "English":
        ending = "th" if 10 < d.day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(d.day % 10, "th")
        values |= {"th": f"{d.day}{ending}", "year": year_in_words(d.year)}
    elif language == "French":
        values["th"] = "1er" if d.day == 1 else str(d.day)
    elif language == "Chinese":
        values["year"] = "".join("〇一二三四五六七八九"[int(figure)] for figure in str(d.year))
    return values


def without_accents(text: str) -> str:
    """
    >>> without_accents("1 ağustos, le 3 février, 1998年")
    '1 agustos, le 3 fevrier, 1998年'
    """
    bare = unicodedata.normalize("NFD", text.replace("ı", "i"))
    return "".join(part for part in bare if not unicodedata.combining(part))


# ---------------------------------------------------------------- words


def year_in_words(year: int) -> str:
    """
    >>> year_in_words(1998), year_in_words(2007), year_in_words(2031)
    ('nineteen ninety-eight', 'two thousand and seven', 'twenty thirty-one')
    """
    century, rest = divmod(year, 100)
    if century == 20 and rest < 10:
        return "two thousand" + (f" and {ONES[rest]}" if rest else "")
    tens, one = divmod(rest, 10)
    spelled = ONES[rest] if rest < 20 else TENS[tens] + (f"-{ONES[one]}" if one else "")
    return f"{ONES[19] if century == 19 else TENS[2]} {spelled}"


def words_of(*lines: str) -> tuple[str, ...]:
    """The words of some lines, with commas or else spaces between."""
    text = "".join(lines)
    return tuple(text.split("," if "," in text else None))


class Words(NamedTuple):
    """What a language calls the months (whole and short), the days of the week from Monday on, and the 31 days."""

    months: tuple[str, ...]
    short: tuple[str, ...]
    weekdays: tuple[str, ...]
    days: tuple[str, ...]


ONES = words_of(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen ",
    "eighteen nineteen",
)
TENS = words_of("zero ten twenty thirty forty fifty sixty seventy eighty ninety")

WORDS = {
    "English": Words(
        words_of("January February March April May June July August September October November December"),
        words_of("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"),
        words_of("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        words_of(
            "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth ",
            "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third ",
            "twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first",
        ),
    ),
    "German": Words(
        words_of("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        words_of("Jan. Feb. Mrz. Apr. Mai Jun. Jul. Aug. Sep. Okt. Nov. Dez."),
        words_of("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
        words_of(
            "erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte dreizehnte vierzehnte ",
            "fünfzehnte sechzehnte siebzehnte achtzehnte neunzehnte zwanzigste einundzwanzigste zweiundzwanzigste ",
            "dreiundzwanzigste vierundzwanzigste fünfundzwanzigste sechsundzwanzigste siebenundzwanzigste ",
            "achtundzwanzigste neunundzwanzigste dreißigste einunddreißigste",
        ),
    ),
    "French": Words(
        words_of("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
        words_of("janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc."),
        words_of("lundi mardi mercredi jeudi vendredi samedi dimanche"),
        words_of(
            "premier,deux,trois,quatre,cinq,six,sept,huit,neuf,dix,onze,douze,treize,quatorze,quinze,seize,dix-sept,",
            "dix-huit,dix-neuf,vingt,vingt et un,vingt-deux,vingt-trois,vingt-quatre,vingt-cinq,vingt-six,vingt-sept,",
            "vingt-huit,vingt-neuf,trente,trente et un",
        ),
    ),
    "Spanish": Words(
        words_of("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
        words_of("ene feb mar abr may jun jul ago sep oct nov dic"),
        words_of("lunes martes miércoles jueves viernes sábado domingo"),
        words_of(
            "primero,dos,tres,cuatro,cinco,seis,siete,ocho,nueve,diez,once,doce,trece,catorce,quince,dieciséis,diecisiete,",
            "dieciocho,diecinueve,veinte,veintiuno,veintidós,veintitrés,veinticuatro,veinticinco,veintiséis,veintisiete,",
            "veintiocho,veintinueve,treinta,treinta y uno",
        ),
    ),
    "Turkish": Words(
        words_of("Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık"),
        words_of("Oca Şub Mar Nis May Haz Tem Ağu Eyl Eki Kas Ara"),
        words_of("Pazartesi Salı Çarşamba Perşembe Cuma Cumartesi Pazar"),
        words_of(
            "bir,iki,üç,dört,beş,altı,yedi,sekiz,dokuz,on,on bir,on iki,on üç,on dört,on beş,on altı,on yedi,on sekiz,",
            "on dokuz,yirmi,yirmi bir,yirmi iki,yirmi üç,yirmi dört,yirmi beş,yirmi altı,yirmi yedi,yirmi sekiz,",
            "yirmi dokuz,otuz,otuz bir",
        ),
    ),
    "Chinese": Words(
        words_of("一 二 三 四 五 六 七 八 九 十 十一 十二"),
        words_of("一 二 三 四 五 六 七 八 九 十 十一 十二"),
        words_of("一 二 三 四 五 六 日"),
        words_of(
            "一 二 三 四 五 六 七 八 九 十 十一 十二 十三 十四 十五 十六 十七 十八 十九 二十 二十一 二十二 ",
            "二十三 二十四 二十五 二十六 二十七 二十八 二十九 三十 三十一",
        ),
    ),
}
