"""The words of invented catalogues: domains with their objects and settings, actions, parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Domain:
    """`objects` are what its tools act on, `settings` where or for whom."""

    name: str
    objects: Sequence[str]
    settings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Action:
    """`verb` names tools; `phrases` begin their descriptions, `{}` standing for the object; `asks` begin requests."""

    verb: str
    phrases: Sequence[str]
    asks: Sequence[str]


def _domain(name: str, objects: str, settings: str) -> Domain:
    return Domain(name, tuple(objects.split(", ")), tuple(settings.split(", ")))


def _action(verb: str, phrases: str, asks: str) -> Action:
    return Action(verb, tuple(phrases.split(" / ")), tuple(asks.split(" / ")))


DOMAINS = (
    _domain(
        "accounting",
        "invoice, ledger entry, expense claim, tax return, bank statement, credit note, "
        "payroll run, cost centre, budget",
        "small firms, the month-end close, a group of companies, freelancers, audits, "
        "value-added tax, foreign currencies",
    ),
    _domain(
        "agriculture",
        "field, crop plan, soil sample, irrigation schedule, harvest log, seed order, tractor route, pest report, silo",
        "vineyards, dry summers, organic farms, greenhouses, cooperatives, wheat and barley, drone imagery",
    ),
    _domain(
        "astronomy",
        "star catalogue, exoplanet, observation slot, telescope image, orbit, meteor shower, light curve, spectrum",
        "amateur observers, southern skies, radio arrays, space probes, near-earth objects, planetariums",
    ),
    _domain(
        "aviation",
        "flight plan, runway notice, gate change, crew roster, baggage trace, weather briefing, landing slot, aircraft",
        "regional airports, night flights, charter operators, helicopters, cargo carriers, winter operations",
    ),
    _domain(
        "banking",
        "account, transfer, standing order, card, loan application, direct debit, fraud alert, exchange rate, mandate",
        "private customers, joint accounts, instant payments, mortgages, savings plans, corporate treasuries",
    ),
    _domain(
        "biology",
        "gene sequence, protein structure, cell line, assay result, species record, primer, microscope slide, pathway",
        "mouse models, marine organisms, plant breeding, virus research, teaching labs, field stations",
    ),
    _domain(
        "books",
        "novel, reading list, library loan, book review, manuscript, author profile, "
        "edition, bookshop order, audiobook",
        "young readers, second-hand shops, book clubs, translations, university libraries, self-publishers",
    ),
    _domain(
        "chemistry",
        "compound, reaction, safety sheet, titration, solvent, reagent order, "
        "chromatogram, molecular formula, catalyst",
        "polymer labs, school experiments, drug discovery, water analysis, hazardous storage, batteries",
    ),
    _domain(
        "cinema",
        "film, showtime, screenplay, trailer, cast list, festival entry, subtitle track, "
        "box-office figure, seat booking",
        "independent theatres, silent classics, documentaries, open-air screens, streaming premieres, film schools",
    ),
    _domain(
        "cloud hosting",
        "virtual machine, storage bucket, load balancer, container image, snapshot, "
        "cluster, secret, network rule, quota",
        "staging environments, three regions, spot capacity, edge locations, disaster recovery, start-ups",
    ),
    _domain(
        "construction",
        "building permit, site plan, material order, crane booking, safety inspection, "
        "blueprint, defect, subcontractor",
        "timber houses, high-rise projects, road works, renovations, listed buildings, modular halls",
    ),
    _domain(
        "cooking",
        "recipe, shopping list, menu, ingredient, nutrition label, meal plan, oven programme, leftover, tasting note",
        "vegetarian families, gluten-free diets, canteens, street kitchens, large parties, slow cookers",
    ),
    _domain(
        "customer support",
        "ticket, live chat, knowledge article, refund request, satisfaction survey, call transcript, escalation, macro",
        "telecom customers, weekend shifts, premium plans, phone queues, self-service portals, several languages",
    ),
    _domain(
        "data analysis",
        "spreadsheet, chart, dashboard, data frame, pivot table, regression, histogram, outlier, time series, survey",
        "sales figures, sensor readings, election polls, web traffic, clinical studies, quarterly reports",
    ),
    _domain(
        "databases",
        "query, table, index, migration, backup, stored procedure, replica, schema, slow statement, access role",
        "transactional systems, read replicas, multi-tenant products, analytics warehouses, legacy mainframes",
    ),
    _domain(
        "education",
        "course, lesson plan, quiz, homework, grade book, timetable, student record, certificate, seminar room",
        "primary schools, evening classes, remote learners, medical students, language courses, apprentices",
    ),
    _domain(
        "energy",
        "power meter, solar panel, tariff, grid outage, charging station, heat pump, wind forecast, battery, boiler",
        "private homes, island grids, housing associations, electric fleets, cold winters, industrial peaks",
    ),
    _domain(
        "events",
        "conference, ticket sale, seating plan, speaker slot, badge, guest list, sponsor package, stage, venue",
        "trade fairs, weddings, charity galas, hybrid meetings, street festivals, hackathons",
    ),
    _domain(
        "fashion",
        "outfit, size chart, fabric sample, lookbook, wardrobe item, sewing pattern, alteration, shoe, collection",
        "winter coats, bridal shops, second-hand platforms, children's wear, running gear, theatre costumes",
    ),
    _domain(
        "file handling",
        "folder, archive, PDF document, scanned page, shared link, file version, spreadsheet export, photo album",
        "legal departments, remote teams, large uploads, encrypted drives, family archives, construction drawings",
    ),
    _domain(
        "fitness",
        "workout, training plan, heart-rate log, race result, weight goal, yoga class, sleep record, step count",
        "marathon runners, rehabilitation, swimmers, office workers, climbing gyms, cycling clubs",
    ),
    _domain(
        "games",
        "leaderboard, match history, character build, game server, achievement, tournament bracket, mod, puzzle",
        "strategy titles, speed runners, board games, e-sports teams, mobile players, retro consoles",
    ),
    _domain(
        "gardening",
        "plant, watering schedule, seed packet, pruning guide, compost bin, flower bed, lawn, pest, greenhouse",
        "balconies, shady corners, community gardens, tomatoes, indoor pots, rose growers",
    ),
    _domain(
        "geography",
        "map layer, address, elevation profile, route, border, satellite tile, place name, postcode, survey point",
        "hikers, delivery drivers, city planners, flood zones, mountain rescue, historical atlases",
    ),
    _domain(
        "government",
        "passport application, residence permit, public tender, council minutes, vehicle registration, petition, fine",
        "citizens abroad, small towns, building authorities, new residents, border crossings, election offices",
    ),
    _domain(
        "health",
        "patient record, prescription, appointment, lab result, vaccination, allergy, symptom diary, referral, X-ray",
        "general practices, emergency rooms, diabetics, pregnant women, dental clinics, care homes",
    ),
    _domain(
        "hotels",
        "room, reservation, check-in, housekeeping task, minibar charge, guest review, key card, breakfast count",
        "family resorts, business travellers, hostels, ski season, late arrivals, boutique houses",
    ),
    _domain(
        "human resources",
        "job posting, candidate, leave request, employment contract, onboarding plan, salary band, shift, appraisal",
        "seasonal workers, remote staff, internships, works councils, hospitals, fast-growing teams",
    ),
    _domain(
        "insurance",
        "policy, claim, premium, damage photo, liability case, coverage, broker, risk score, accident report",
        "car owners, storm damage, travel cover, small businesses, pets, household goods",
    ),
    _domain(
        "journalism",
        "headline, press release, interview, fact check, news feed, photo caption, editorial plan, source, embargo",
        "local papers, election nights, financial news, investigations, sports desks, podcasts",
    ),
    _domain(
        "law",
        "contract, court ruling, clause, statute, power of attorney, deadline, patent, trademark, witness statement",
        "tenancy disputes, mergers, data protection, start-up founders, labour courts, cross-border cases",
    ),
    _domain(
        "logistics",
        "shipment, pallet, customs form, delivery window, warehouse bin, truck, container, return label, freight quote",
        "refrigerated goods, last-mile couriers, sea freight, spare parts, hazardous cargo, rush orders",
    ),
    _domain(
        "machine learning",
        "model checkpoint, training run, embedding, prompt, evaluation set, "
        "feature store, label, inference job, dataset",
        "vision tasks, speech recognition, small devices, recommendation engines, tabular data, chat assistants",
    ),
    _domain(
        "manufacturing",
        "work order, assembly line, machine alarm, quality check, spare part, batch, drawing, tool wear, robot cell",
        "injection moulding, food plants, car suppliers, night shifts, precision optics, furniture makers",
    ),
    _domain(
        "marketing",
        "campaign, newsletter, landing page, keyword, audience, coupon, banner, brand guideline, influencer, lead",
        "product launches, non-profits, holiday seasons, business customers, social networks, local shops",
    ),
    _domain(
        "mathematics",
        "equation, integral, matrix, proof, prime number, graph, probability, unit conversion, polynomial, vector",
        "homework help, cryptography, engineers, competitions, numerical methods, statistics courses",
    ),
    _domain(
        "messaging",
        "channel, direct message, e-mail, thread, reminder, contact, poll, attachment, voice note, mailing list",
        "distributed teams, school parents, on-call crews, customer groups, volunteers, public announcements",
    ),
    _domain(
        "monitoring",
        "alert, log line, trace, uptime check, metric, incident, on-call rota, error budget, dashboard panel",
        "payment services, mobile backends, network equipment, nightly jobs, kiosks, cold-storage sensors",
    ),
    _domain(
        "museums",
        "exhibit, audio guide, loan, restoration report, visitor count, sculpture, painting, donor, guided tour",
        "natural history, modern art, school groups, open-air sites, maritime collections, night openings",
    ),
    _domain(
        "music",
        "song, playlist, concert, lyric, chord chart, recording, album cover, instrument, rehearsal, royalty statement",
        "jazz trios, wedding bands, film scores, choirs, home studios, electronic producers",
    ),
    _domain(
        "pets",
        "vet visit, feeding plan, dog walk, adoption notice, microchip, grooming slot, aquarium, breed profile, kennel",
        "puppies, older cats, shelters, tropical fish, horse owners, holiday care",
    ),
    _domain(
        "photography",
        "photo, raw file, lens, exposure, portrait, watermark, print order, colour profile, shooting list, album",
        "wedding shoots, wildlife, product images, night scenes, drones, old family slides",
    ),
    _domain(
        "project management",
        "task, milestone, sprint, backlog item, Gantt chart, risk, status report, time sheet, dependency, stakeholder",
        "software teams, construction sites, research grants, agencies, events crews, regulated products",
    ),
    _domain(
        "real estate",
        "listing, viewing, floor plan, lease, mortgage estimate, tenant, repair request, energy rating, deposit",
        "shared flats, holiday homes, office space, first-time buyers, student housing, old town districts",
    ),
    _domain(
        "research",
        "paper, citation, abstract, preprint, grant, peer review, bibliography, figure, experiment log, reading note",
        "medicine, climate science, computational linguistics, early-career scientists, meta-analyses, economics",
    ),
    _domain(
        "restaurants",
        "table booking, dish, waiting list, allergen card, tip, kitchen order, wine list, reviewer, delivery order",
        "rooftop bars, sushi counters, brunch crowds, family tables, food trucks, set menus",
    ),
    _domain(
        "retail",
        "product, basket, stock level, price tag, gift card, loyalty account, return, supplier, shelf plan, discount",
        "online shops, pharmacies, grocery chains, flea markets, black-friday rushes, click and collect",
    ),
    _domain(
        "security",
        "password, vulnerability, certificate, firewall rule, phishing mail, access log, token, malware sample, audit",
        "industrial plants, banks, home networks, open-source projects, bring-your-own devices, hospitals",
    ),
    _domain(
        "smart home",
        "lamp, thermostat, door lock, camera, scene, vacuum robot, doorbell, blind, sprinkler, speaker group",
        "holiday absence, children's rooms, energy savers, rented flats, elderly people, garden sheds",
    ),
    _domain(
        "software development",
        "pull request, branch, code review, unit test, build, package, issue, release note, stack trace, dependency",
        "monorepos, embedded firmware, mobile apps, data pipelines, beginners, security fixes",
    ),
    _domain(
        "sports",
        "match, score, league table, player transfer, line-up, injury list, season ticket, referee, statistic",
        "football fans, tennis tournaments, youth clubs, winter sports, fantasy leagues, olympic qualifiers",
    ),
    _domain(
        "stock markets",
        "share price, portfolio, dividend, option chain, earnings call, order book, index fund, filing, watch list",
        "day traders, pension savers, emerging markets, small caps, risk managers, crypto assets",
    ),
    _domain(
        "translation",
        "phrase, glossary, subtitle, language pair, transcript, dialect, term base, certified document, spelling",
        "court interpreters, game studios, tourists, medical leaflets, sign language, user manuals",
    ),
    _domain(
        "travel",
        "flight, train ticket, itinerary, visa rule, packing list, rental car, ferry, city guide, luggage, hostel bed",
        "backpackers, business trips, families with toddlers, island hopping, night trains, last-minute deals",
    ),
    _domain(
        "video",
        "clip, subtitle file, livestream, thumbnail, transcript, frame, channel, codec setting, storyboard, playlist",
        "online teachers, music videos, security footage, short vertical formats, news rooms, game streamers",
    ),
    _domain(
        "weather",
        "forecast, storm warning, rain radar, temperature record, tide table, pollen count, air quality, snow depth",
        "sailors, ski resorts, allergy sufferers, farmers, road maintenance, coastal towns",
    ),
    _domain(
        "web search",
        "web page, search result, image match, domain record, link, cached copy, sitemap, feed, snippet",
        "academics, price comparisons, brand monitoring, recipes, archived sites, local businesses",
    ),
)

ACTIONS = (
    _action("list", "Lists every {} / Returns all known {}s", "show me every / which are the"),
    _action("get", "Fetches one {} in full / Returns the details of a {}", "give me the details of the / pull up the"),
    _action("create", "Creates a new {} / Adds a {}", "set up a new / please make a"),
    _action("update", "Changes fields of an existing {} / Edits a {}", "change the / correct the"),
    _action("delete", "Removes a {} for good / Deletes the given {}", "get rid of the / remove the"),
    _action("search", "Searches every {} by words / Finds a {} by free text", "look for a / find me a"),
    _action("summarize", "Writes a short summary of a {} / Condenses a {}", "sum up the / what is the gist of the"),
    _action("export", "Exports a {} to a file / Saves a {} in another format", "save as a file the / export the"),
    _action("import", "Reads a {} from a file / Loads a {} from outside", "load from my file the / bring in the"),
    _action(
        "compare", "Compares one {} with another / Shows how two versions of a {} differ", "compare the / contrast the"
    ),
    _action(
        "schedule", "Plans a {} for a date / Puts a {} in the calendar", "plan for next week a / put on Tuesday the"
    ),
    _action("cancel", "Cancels a {} before it begins / Calls off a {}", "call off the / cancel my"),
    _action("share", "Shares a {} with other people / Sends a link to a {}", "send my colleague the / share the"),
    _action(
        "validate", "Checks that a {} is sound / Verifies a {} against the rules", "check the / is there a fault in the"
    ),
    _action(
        "estimate",
        "Estimates what a {} will cost / Predicts the effort of a {}",
        "how much is the / guess the cost of the",
    ),
    _action("track", "Follows the state of a {} / Tells where a {} stands now", "where is the / keep an eye on the"),
    _action("archive", "Moves a {} to the archive / Puts an old {} away", "put away the / archive the"),
    _action("approve", "Approves a {} that waits / Signs off a {}", "sign off the / approve the"),
    _action("assign", "Gives a {} to a person / Hands over a {}", "hand over to Priya the / assign to me the"),
    _action(
        "convert",
        "Converts a {} into another form / Turns a {} into something else",
        "turn into another form the / convert the",
    ),
    _action(
        "recommend", "Suggests a fitting {} / Recommends a {} by taste and history", "suggest a good / recommend a"
    ),
    _action(
        "translate",
        "Renders the text of a {} in another language / Translates a {}",
        "put into Spanish the / translate the",
    ),
    _action("rate", "Rates a {} and keeps the opinion / Scores a {}", "give five points to the / score the"),
    _action("restore", "Brings an earlier {} back / Undoes the loss of a {}", "bring back the / restore yesterday's"),
)

PARAMETERS: Mapping[str, tuple[str, str]] = {
    "limit": ("integer", "How many to return at most"),
    "language": ("string", "ISO 639-1 code of the answer's language"),
    "date": ("string", "The day in ISO 8601, in the user's time zone"),
    "start": ("string", "First day that counts"),
    "end": ("string", "Last day that counts"),
    "format": ("string", "One of csv, json, markdown or pdf"),
    "query": ("string", "Words to look for"),
    "sort_by": ("string", "Field by which the answer is ordered"),
    "include_archived": ("boolean", "Whether what was put away counts too"),
    "recipient": ("string", "E-mail address of the person who gets it"),
    "note": ("string", "A remark for whoever reads it later"),
    "priority": ("string", "low, normal or urgent"),
    "currency": ("string", "ISO 4217 code"),
    "page": ("integer", "Which page of the answer, from 1"),
    "dry_run": ("boolean", "Only tell what would happen"),
    "owner": ("string", "Who is responsible"),
    "location": ("string", "Town, address or coordinates"),
    "amount": ("number", "How much, in the unit of the account"),
    "tags": ("array", "Labels that must all be present"),
    "reason": ("string", "Why, in one sentence"),
}

QUALIFIERS = (
    "recent, overdue, draft, public, private, urgent, monthly, shared, duplicate, regional, seasonal, incomplete, "
    "confirmed, disputed, favourite, external, internal, temporary, historical, daily"
).split(", ")
DETAILS = (
    "The answer names who changed it last",
    "Works on up to a hundred at once",
    "Nothing is changed until it is confirmed",
    "Times are in the local zone",
    "The owner is told by e-mail",
    "Needs the identifier that a search returns",
    "Partial matches are marked as such",
    "Old versions stay available for ninety days",
    "Returns a link that expires after a day",
    "Sorted with the newest first",
    "Keeps an entry in the activity log",
    "Fails with a clear message if access is missing",
    "Figures are rounded to two decimals",
    "Accepts several languages",
    "Attachments are kept with it",
    "Can be undone within an hour",
)
BRANDS = (
    "amber, anchor, aspen, atlas, basil, beacon, birch, bramble, brook, canyon, cedar, cinder, clover, cobalt, comet, "
    "copper, coral, cricket, dapple, delta, drift, ember, falcon, fennel, fern, flint, gable, garnet, ginger, glacier, "
    "granite, harbor, hazel, heron, indigo, ivory, jasper, juniper, kestrel, lagoon, lantern, larch, linden, lotus, "
    "maple, marble, meadow, mica, mistral, nettle, nimbus, ochre, olive, onyx, opal, orchid, osprey, pebble, pepper, "
    "pine, plover, poppy, prairie, quartz, quill, raven, reef, ridge, robin, saffron, sage, slate, sorrel, spruce, "
    "summit, swift, teal, thistle, timber, topaz, tundra, umber, velvet, violet, walnut, willow, wren, zephyr"
).split(", ")
